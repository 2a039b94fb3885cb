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
// holds the lock of one may run; a lock dies with its process. They are locks of
// open files (F_OFD_SETLK), since those can be counted without being taken.
var slotsDir = "/run/sedna/slots"

// slotPoll is how often taken slots are tried again: waiting for a lock can't be
// cancelled.
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
		err = unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK})
		if err == nil {
			return f, nil
		}
		f.Close()
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EACCES) && !errors.Is(err, unix.EINTR) {
			return nil, fmt.Errorf("lock a download slot: %w", err)
		}
	}
	return nil, nil
}

// takenSlots counts the downloads that run on this node.
func takenSlots(most int) (n int) {
	for i := range most {
		f, err := os.OpenFile(filepath.Join(slotsDir, strconv.Itoa(i)), os.O_RDWR|unix.O_NOFOLLOW, 0)
		if err != nil {
			continue
		}
		lock := unix.Flock_t{Type: unix.F_WRLCK}
		if unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &lock) == nil && lock.Type != unix.F_UNLCK {
			n++
		}
		f.Close()
	}
	return n
}
