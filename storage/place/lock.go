// SPDX-License-Identifier: Apache-2.0

package place

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// lockPoll is how often a held lock is tried again: flock can't be cancelled.
const lockPoll = 50 * time.Millisecond

// Lock makes this process the only one that fills the volume, until Close or its
// death. An attempt that containerd has given up may still be ending when the
// pod's next one begins. waiting is called once if another holds the lock.
func (t *Tree) Lock(ctx context.Context, waiting func()) error {
	tick := time.NewTicker(lockPoll)
	defer tick.Stop()
	for first := true; ; first = false {
		err := unix.Flock(fd(t.staging), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
			return nil // some file systems have no locks to offer
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("lock the volume's folder %s: %w", Folder, err)
		}
		if first && waiting != nil {
			waiting()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for another download into the same volume: %w", context.Cause(ctx))
		case <-tick.C:
		}
	}
}
