// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// slotsDir has one file for each download that may run on the node at once. Who
// holds the lock of one may run; a lock dies with its process.
var slotsDir = "/run/sedna/slots"

// slotPoll is how often taken slots are tried again: flock can't be cancelled.
const slotPoll = 100 * time.Millisecond

// takeSlot waits until fewer than most downloads run on this node. waiting is
// called once if it has to. release gives the slot back.
func takeSlot(ctx context.Context, most int, waiting func()) (release func(), err error) {
	if err := os.MkdirAll(slotsDir, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of download slots: %w", err)
	}
	tick := time.NewTicker(slotPoll)
	defer tick.Stop()
	for first := true; ; first = false {
		held, err := trySlots(most)
		if err != nil {
			return nil, err
		}
		if held != nil {
			return func() { held.Close() }, nil
		}
		if first {
			waiting()
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// trySlots locks a free slot, nil if there is none.
func trySlots(most int) (*os.File, error) {
	for i := range most {
		f, err := os.OpenFile(filepath.Join(slotsDir, strconv.Itoa(i)), os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, fmt.Errorf("open a download slot: %w", err)
		}
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return f, nil
		}
		f.Close()
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return nil, fmt.Errorf("lock a download slot: %w", err)
		}
	}
	return nil, nil
}
