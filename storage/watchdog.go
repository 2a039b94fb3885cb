// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// minFed is how many bytes must come within a stall's time: less is a drip
// that would take for ever.
const minFed = 4 << 10

var errStall = errors.New("stalled")

// watchdog ends a request that brings too little.
type watchdog struct {
	n      atomic.Int64
	timer  *time.Timer
	cancel context.CancelCauseFunc
}

// watch returns a context that ends with errStall unless the dog is fed.
func watch(ctx context.Context, every time.Duration) (context.Context, *watchdog) {
	ctx, cancel := context.WithCancelCause(ctx)
	w := &watchdog{cancel: cancel}
	w.timer = time.AfterFunc(every, func() {
		if w.n.Swap(0) < minFed {
			cancel(errStall)
			return
		}
		w.timer.Reset(every)
	})
	return ctx, w
}

func (w *watchdog) fed(n int64) { w.n.Add(n) }

func (w *watchdog) stop() {
	w.timer.Stop()
	w.cancel(nil)
}
