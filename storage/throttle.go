// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// throttle keeps all of a run's reading below so many bytes per second, or within
// what a meter is granted. The zero one is no limit.
type throttle struct {
	rate  int64
	meter *Meter
	slow  atomic.Bool // somebody had to wait since slowed was called

	mu   sync.Mutex
	free time.Time // when the bytes read so far are paid for; guarded by mu
}

// nap is how long waiting goes on without telling the watchdog that it's no stall.
const nap = time.Second / 4

// wait pays for n bytes. Waiting is no stall.
func (t *throttle) wait(ctx context.Context, dog *watchdog, n int) error {
	switch {
	case t == nil:
		return nil
	case t.meter != nil:
		return t.meter.wait(ctx, dog, int64(n), &t.slow)
	case t.rate <= 0:
		return nil
	}
	t.mu.Lock()
	now := time.Now()
	if t.free.Before(now) {
		t.free = now
	}
	t.free = t.free.Add(time.Duration(float64(n) / float64(t.rate) * float64(time.Second)))
	until := t.free
	t.mu.Unlock()
	for {
		left := time.Until(until)
		if left <= 0 {
			return nil
		}
		t.slow.Store(true)
		if err := doze(ctx, dog, time.After(min(left, nap)), nil); err != nil {
			return err
		}
	}
}

// slowed says whether it held anything up since it was asked last.
func (t *throttle) slowed() bool { return t.slow.Swap(false) }

// doze waits for one of two things to happen.
func doze(ctx context.Context, dog *watchdog, after <-chan time.Time, or <-chan struct{}) error {
	dog.fed(minFed)
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-after:
	case <-or:
	}
	return nil
}

// Meter has a run read only what it's granted. What has arrived can't be sent
// back, so that reading may run ahead by a buffer for each connection; the next
// grants pay for it.
type Meter struct {
	ask func()

	mu    sync.Mutex
	have  int64         // granted and not read; below zero what was read ahead; guarded by mu
	last  int64         // grant's size; guarded by mu
	asked bool          // the next grant is under way; guarded by mu
	more  chan struct{} // closed by the next grant; guarded by mu
}

// NewMeter returns a meter without any grant. It calls ask for the next one, and
// not again before Grant.
func NewMeter(ask func()) *Meter { return &Meter{ask: ask, more: make(chan struct{})} }

// Metered holds a run to what m is granted.
func Metered(m *Meter) Option { return func(e *engine) { e.speed.meter = m } }

// Grant lets n more bytes be read.
func (m *Meter) Grant(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.have += n
	m.last, m.asked = n, false
	close(m.more)
	m.more = make(chan struct{})
}

// wait pays for n bytes, and asks for the next grant when the last one begins to
// be used up, so that none has to be waited for longer than its turn takes.
func (m *Meter) wait(ctx context.Context, dog *watchdog, n int64, slow *atomic.Bool) error {
	for {
		m.mu.Lock()
		m.have -= n
		ask := !m.asked && m.have < m.last
		m.asked = m.asked || ask
		enough, more := m.have >= 0, m.more
		m.mu.Unlock()
		if ask {
			m.ask()
		}
		if enough {
			return nil
		}
		n = 0 // it's paid for by what is owed
		slow.Store(true)
		if err := doze(ctx, dog, time.After(nap), more); err != nil {
			return err
		}
	}
}
