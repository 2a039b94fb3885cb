// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"sync"
	"time"
)

const (
	// firstLook is how long the first connections may take to answer, and after
	// that to show what they bring.
	firstLook = 10 * time.Millisecond
	// fewWeb and fewS3 are the connections that are looked at. A file has one writer
	// at a time, so that one connection that is always ready keeps it busy, as a web
	// server's sendfile does. An S3 service copies and checks what it sends: one
	// connection gets what one of its cores can do.
	fewWeb = 1
	fewS3  = 2
	// ample, in bytes per second, is what they must bring for the network not to be
	// what is short.
	ample = 400e6
)

// look gives the first connections of a large download a moment to show whether
// they are enough. Where the network is what is short, more come at once. Where it
// isn't, this machine is: more would only be in each other's way.
type look struct {
	mu      sync.Mutex
	begun   time.Time // guarded by mu, as the rest
	answer  time.Time
	bytes   int64 // since then
	settled bool
}

// begin says whether the look begins now. There's one in a run.
func (l *look) begin(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.begun.IsZero() {
		return false
	}
	l.begun = now
	return true
}

// goesOn says whether connections are being looked at.
func (l *look) goesOn() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.begun.IsZero() && !l.settled
}

// answered notes an answer; the first is what counts.
func (l *look) answered(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.answer.IsZero() {
		l.answer = now
	}
}

// next notes bytes that have come, and says, once, how many connections to go on
// with; 0 for as many as before.
func (l *look) next(now time.Time, n int64) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.begun.IsZero() || l.settled {
		return 0
	}
	l.bytes += n
	answer := l.answer
	if answer.IsZero() {
		answer = now
	}
	if answer.Sub(l.begun) >= firstLook {
		l.settled = true
		return firstLimit // it's far away, and may be fast all the same
	}
	d := now.Sub(answer)
	l.settled = d >= firstLook
	if l.settled && float64(l.bytes) < ample*d.Seconds() {
		return secondLimit
	}
	return 0
}
