// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sedna-io/containerd-shim-sedna/storage/source"
)

const (
	firstLimit = 4
	// secondLimit is where slow ones begin that have been looked at.
	secondLimit = 8
	tick        = 40 * time.Millisecond
	// worth of one request in bytes, so that many small files count as work.
	requestWorth = 128 << 10
	// window is how long a number of connections is watched before another is
	// tried: servers send in bursts, and a network needs some round trips.
	window = 500 * time.Millisecond
	// enough of the speed must remain for fewer connections to be kept.
	enough = 0.95
	// longest is how many windows a number is kept before another is tried.
	longest = 32
	// busy is how much of one core means that connections aren't what is short,
	// and fast, in bytes per second, is a connection that isn't either.
	busy = 0.85
	fast = 120e6
	// plenty, in bytes per second of all of them, is near what a worker's core
	// can take.
	plenty = 600e6
	// late is a tick that others kept from the processor: it is what is short.
	late = tick * 5 / 4
)

// tuner finds how many connections help. A large download has a moment with one
// or two, see look. Where they aren't enough, and in other downloads, it begins with
// a few and doubles them every tick up to the most allowed, unless this process is busy
// enough with those it has, they are fast, the machine has no time for more, or a limit
// of bandwidth is reached: a start that takes its time would be most of a download.
// Then it finds out whether fewer do as well, and now and then whether more would,
// since other users of the network come and go.
type tuner struct {
	max   int64
	now   atomic.Int64 // connections at most
	score atomic.Int64 // bytes and what requests are worth
	rate  atomic.Int64 // bytes per second of one connection, lately
	bytes atomic.Int64
	first look
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

// asked notes a request that was answered.
func (t *tuner) asked() {
	t.score.Add(requestWorth)
	t.first.answered(time.Now())
}

// beginFew has a large download begin with few connections, if it's the first of
// all.
func (t *tuner) beginFew(few int64) {
	if t.max > few && t.score.Load() == 0 && t.first.begin(time.Now()) {
		t.now.Store(few)
	}
}

// failed steps back where a server asks for it.
func (t *tuner) failed(err error) {
	var e *source.Error
	if errors.As(err, &e) && e.RetryAfter > 0 {
		t.now.Store(max(1, t.now.Load()/2))
	}
}

// run tunes until ctx ends.
func (t *tuner) run(ctx context.Context, e *engine) {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	s := search{ramp: true}
	last := t.sample()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		e.look(0)
		e.mu.Lock()
		active := int64(e.active)
		e.mu.Unlock()
		now := t.sample()
		seconds := now.at.Sub(last.at).Seconds()
		if active > 0 {
			t.rate.Store(int64(float64(now.bytes-last.bytes) / seconds / float64(active)))
		}
		before := t.now.Load()
		slowed := e.speed.slowed()
		switch {
		case t.first.goesOn():
		case s.ramp && seconds >= late.Seconds():
			// What is short can't be told now, but that the processor is.
		case active >= before && now.score > last.score:
			idle := !slowed && now.cpu-last.cpu < busy*seconds && t.rate.Load() < fast && float64(now.bytes-last.bytes) < plenty*seconds
			t.now.Store(s.step(before, t.max, now, !idle))
		default:
			s.begin(now) // what happens now says nothing about the limit
		}
		last = now
		if t.now.Load() > before {
			e.mu.Lock()
			e.changed.Broadcast()
			e.mu.Unlock()
		}
	}
}

// sample is what was done up to a moment.
type sample struct {
	at           time.Time
	score, bytes int64
	cpu          float64 // seconds of this process
}

func (t *tuner) sample() sample {
	var r unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &r) // else it is never busy
	return sample{time.Now(), t.score.Load(), t.bytes.Load(), float64(r.Utime.Nano()+r.Stime.Nano()) / 1e9}
}

// search is where the looking for the right number stands.
type search struct {
	ramp   bool
	from   sample  // where the window began; zero before the first
	before int64   // the number that a trial would go back to; 0 without a trial
	rate   float64 // what that number brought
	hold   int     // windows until the next trial
	held   int     // how many the last hold was
	up     bool    // the next trial is of more
}

// begin starts a window.
func (s *search) begin(now sample) { s.from = now }

// step returns the number of connections for the next tick.
func (s *search) step(limit, most int64, now sample, busy bool) int64 {
	if s.ramp {
		s.from = now
		if !busy && limit < most {
			return min(2*limit, most)
		}
		s.ramp = false
		return limit
	}
	d := now.at.Sub(s.from.at)
	if d < window {
		return limit
	}
	rate := float64(now.score-s.from.score) / d.Seconds()
	s.from = now
	switch {
	case s.before > limit && rate >= enough*s.rate:
		s.before, s.rate, s.hold, s.held = 0, rate, 0, 0 // fewer do as well; fewer still?
	case s.before != 0 && s.before < limit && rate*enough >= s.rate:
		s.before, s.rate, s.hold, s.held = 0, rate, 0, 0
	case s.before != 0:
		back := s.before
		s.before, s.up = 0, !s.up
		s.held = min(max(2*s.held, 2), longest)
		s.hold = s.held
		return back
	default:
		s.rate = rate
	}
	if s.hold > 0 {
		s.hold--
		return limit
	}
	next := max(1, limit/2)
	if s.up || limit == 1 {
		next = min(2*limit, most)
	}
	if next == limit {
		s.up = !s.up
		return limit
	}
	s.before = limit
	return next
}
