// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"sync"
	"time"
)

const (
	// firstLook is how long a first connection may take to answer, and after that
	// to show what it brings; then how long a second one has to settle.
	firstLook = 10 * time.Millisecond
	// secondLook is how long one and two connections are compared.
	secondLook = 20 * time.Millisecond
	// ample, in bytes per second, is what one must bring for the network not to be
	// what is short.
	ample = 400e6
)

// stage is how far a look is.
type stage int

const (
	unbegun  stage = iota
	alone          // is the network what is short?
	one            // what does one bring?
	settling       // the second begins
	two            // do two bring more?
	looked
)

// look gives the first connection of a large download a moment alone. Where the
// network is what is short, more of them come at once. Where it isn't, it's this
// machine: a file has one writer at a time, and the server may want the other core.
// Then the first is held against two, and more are left to the tuner.
type look struct {
	mu     sync.Mutex
	stage  stage // guarded by mu, as the rest
	from   time.Time
	slow   bool // the first answer took long
	bytes  int64
	before float64 // what one connection brought
}

// begin says whether the look begins now. There's one in a run.
func (l *look) begin(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stage != unbegun {
		return false
	}
	l.stage, l.from = alone, now
	return true
}

// goesOn says whether connections are being looked at.
func (l *look) goesOn() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stage > unbegun && l.stage < looked
}

// answered notes an answer; the first is what counts.
func (l *look) answered(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stage == alone && l.bytes == 0 {
		l.slow = now.Sub(l.from) >= firstLook
		l.from = now
	}
}

// next notes bytes that have come, and returns how many connections there are to
// be from now on; 0 for as many as before.
func (l *look) next(now time.Time, n int64) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stage == unbegun || l.stage == looked {
		return 0
	}
	l.bytes += n
	d := now.Sub(l.from)
	if d < l.takes() && !l.slow {
		return 0
	}
	rate := float64(l.bytes) / d.Seconds()
	l.from, l.bytes = now, 0
	switch l.stage {
	case alone:
		if l.slow || rate < ample {
			l.stage, l.slow = looked, false
			return firstLimit
		}
		l.stage = one
	case one:
		l.stage, l.before = settling, rate
		return 2
	case settling:
		l.stage = two
	case two:
		l.stage = looked
		if rate*enough < l.before {
			return 1
		}
	}
	return 0
}

// takes is how long a stage does.
func (l *look) takes() time.Duration {
	if l.stage == one || l.stage == two {
		return secondLook
	}
	return firstLook
}
