// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"sync"
	"time"
)

// throttle keeps all of a run's reading below so many bytes per second. The
// zero rate is no limit.
type throttle struct {
	rate int64

	mu   sync.Mutex
	free time.Time // when the bytes read so far are paid for; guarded by mu
}

// wait pays for n bytes. Waiting is no stall.
func (t *throttle) wait(ctx context.Context, dog *watchdog, n int) error {
	if t == nil || t.rate <= 0 {
		return nil
	}
	t.mu.Lock()
	now := time.Now()
	if t.free.Before(now) {
		t.free = now
	}
	t.free = t.free.Add(time.Duration(int64(n) * int64(time.Second) / t.rate))
	until := t.free
	t.mu.Unlock()
	for {
		left := time.Until(until)
		if left <= 0 {
			return nil
		}
		dog.fed(minFed)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(min(left, time.Second/4)):
		}
	}
}
