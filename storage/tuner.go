// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/sedna-io/containerd-shim-sedna/storage/source"
)

const (
	firstLimit = 4
	tick       = 40 * time.Millisecond
	// worth of one request in bytes, so that many small files count as work.
	requestWorth = 128 << 10
	// gain is how much faster twice the connections must be to be kept.
	gain = 1.12
	// holdFor ticks a limit is kept before more is tried again; twice as long
	// after each time that it didn't help.
	holdFor, maxHold = 12, 200
)

// tuner finds how many connections help. It doubles them as long as that makes
// the whole faster, goes back when it doesn't, and tries again later, since
// other users of the network come and go.
type tuner struct {
	max   int64
	now   atomic.Int64 // connections at most
	score atomic.Int64 // bytes and what requests are worth
	rate  atomic.Int64 // bytes per second of one connection, lately
	bytes atomic.Int64
}

func newTuner(most int) *tuner {
	t := &tuner{max: int64(max(most, 1))}
	t.now.Store(min(firstLimit, t.max))
	return t
}

func (t *tuner) limit() int           { return int(t.now.Load()) }
func (t *tuner) perConnection() int64 { return t.rate.Load() }

func (t *tuner) moved(n int64) {
	t.bytes.Add(n)
	t.score.Add(n)
}

func (t *tuner) asked() { t.score.Add(requestWorth) }

// failed steps back where a server asks for it.
func (t *tuner) failed(err error) {
	var e *source.Error
	if errors.As(err, &e) && e.RetryAfter > 0 {
		t.now.Store(max(1, t.now.Load()/2))
	}
}

// climb is where the search stands.
type climb struct {
	base    float64 // what the limit before brought
	trial   bool
	settled bool // the new connections have had a tick to begin
	hold    int
	next    int // how long the next hold is
}

// run tunes until ctx ends.
func (t *tuner) run(ctx context.Context, e *engine) {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	c := climb{next: holdFor}
	score, bytes, at := t.score.Load(), t.bytes.Load(), time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		s, b, now := t.score.Load(), t.bytes.Load(), time.Now()
		seconds := now.Sub(at).Seconds()
		e.mu.Lock()
		active := e.active
		e.mu.Unlock()
		if active > 0 {
			t.rate.Store(int64(float64(b-bytes) / seconds / float64(active)))
		}
		before := t.now.Load()
		if int64(active) >= before {
			t.now.Store(c.step(before, t.max, float64(s-score)/seconds))
		}
		score, bytes, at = s, b, now
		if t.now.Load() > before {
			e.mu.Lock()
			e.changed.Broadcast()
			e.mu.Unlock()
		}
	}
}

// step returns the next limit, given what the present one brings.
func (c *climb) step(limit, most int64, rate float64) int64 {
	switch {
	case c.trial && !c.settled:
		// The new connections were being made: a good tick counts, a bad one
		// is not held against them yet.
		if rate < c.base*gain {
			c.settled = true
			return limit
		}
		fallthrough
	case c.trial:
		c.trial = false
		if rate < c.base*gain {
			c.hold, c.next = c.next, min(2*c.next, maxHold)
			return max(1, limit/2)
		}
	case c.hold > 0:
		c.hold--
		c.base = 0.7*c.base + 0.3*rate
		return limit
	}
	c.base = rate
	if rate == 0 || limit >= most {
		return limit
	}
	c.trial, c.settled = true, false
	return min(2*limit, most)
}
