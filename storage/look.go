// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"sync"
	"time"
)

const (
	// firstLook is how long a first connection may take to answer, and after that
	// to show what it brings.
	firstLook = 10 * time.Millisecond
	// ample, in bytes per second, is what it must bring for more to have no point.
	ample = 400e6
)

// look gives the first connection of a large download a moment alone. Where the
// processor or the disk's file is what is short, more connections would only be in
// each other's way: a file has one writer at a time. Where it's the network they
// come a moment later. The zero look has not begun.
type look struct {
	mu     sync.Mutex
	begun  time.Time // guarded by mu, as the rest
	answer time.Time
	bytes  int64 // since then
	over   bool
}

// begin says whether the look begins now. There's one in a run.
func (l *look) begin(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over || !l.begun.IsZero() {
		return false
	}
	l.begun = now
	return true
}

// goesOn says whether a connection is being looked at.
func (l *look) goesOn() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.begun.IsZero() && !l.over
}

// answered notes the first answer.
func (l *look) answered(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.answer.IsZero() {
		l.answer = now
	}
}

// tooFew notes bytes that have come, and says, once, that more connections are
// wanted.
func (l *look) tooFew(now time.Time, n int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.begun.IsZero() || l.over {
		return false
	}
	l.bytes += n
	switch {
	case l.answer.IsZero():
		l.over = now.Sub(l.begun) >= firstLook
		return l.over
	case l.answer.Sub(l.begun) >= firstLook:
		l.over = true
		return true
	}
	d := now.Sub(l.answer)
	l.over = d >= firstLook
	return l.over && float64(l.bytes) < ample*d.Seconds()
}
