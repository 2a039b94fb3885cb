// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"
)

// touching is what a preparation does that can hang for as long as a file
// system doesn't answer: a network's whose server is gone, a FUSE program's that
// sleeps. No deadline ends such a system call.
type touching struct {
	mu    sync.Mutex
	what  string    // guarded by mu
	since time.Time // guarded by mu
}

// now says what is touched from now on, "" for nothing that could hang.
func (t *touching) now(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.what, t.since = fmt.Sprintf(format, args...), time.Now()
}

func (t *touching) last() (what string, since time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.what, time.Since(t.since)
}

// hangs is the error for a preparation that was given up.
func (t *touching) hangs() error {
	what, since := t.last()
	if what == "" {
		what = "runsc, or a volume that it mounts,"
	}
	return fmt.Errorf("%s hasn't answered for %s: is the server or the program behind its file system alive? Nothing can start before it answers: %w",
		what, since.Round(100*time.Millisecond), errHangs)
}

// errHangs is what hangs returns, of a kind that is worth another attempt.
var errHangs = fmt.Errorf("a file system hangs: %w", errdefs.ErrUnavailable)

// touchTime is how long what is touched may take to answer, more or less. Who
// waits longer hears of it with the next attempt.
const touchTime = 30 * time.Second

// cancelTime is how long a cancelled preparation may take to clean up: the two
// seconds of its worker, and what is to be written down then.
const cancelTime = 2300 * time.Millisecond

// within calls prepare in a goroutine of its own, and gives it up where it hangs:
// after some time, some less after ctx was cancelled, or before its deadline by
// the margin; half of that if it doesn't hang at what was touched. What was given up must find ctx
// ended and do nothing more, should it ever go on.
func (t *touching) within(ctx context.Context, margin time.Duration, prepare func() error) error {
	inTime, cancel := beforeDeadline(ctx, margin)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- prepare() }()
	beat := time.NewTicker(progressEvery)
	defer beat.Stop()
	ended := inTime.Done()
	var late <-chan time.Time
	for {
		select {
		case err := <-done:
			return err
		case <-beat.C:
			switch what, since := t.last(); {
			case what == "" || since < progressEvery:
			case since > touchTime:
				return t.hangs()
			default:
				log.G(ctx).Warnf("%s hasn't answered for %s", what, since.Round(time.Second))
			}
		case <-ended:
			ended, late = nil, time.After(t.patience(ctx))
		case <-late:
			return t.hangs()
		}
	}
}

// patience is how long a preparation may still take whose time is over.
func (t *touching) patience(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	switch what, _ := t.last(); {
	case errors.Is(ctx.Err(), context.Canceled) || !ok:
		return cancelTime
	case what != "":
		return 0
	}
	return time.Until(deadline) / 2 // it says how far it got
}
