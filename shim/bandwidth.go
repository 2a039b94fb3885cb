// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// budgetFile holds one number that all shims of the node share: until when, in
// nanoseconds of CLOCK_MONOTONIC, the bytes granted so far take the node's
// bandwidth. A grant begins where the one before ends, whoever's it is, so that
// all of them together keep the pace, one download alone has all of it, and
// several get equal shares, since each has one grant under way.
//
// There is no lock to be left behind: a shim that is killed leaves a number that
// time passes by. Workers never see the file. One that is taken over can read
// more than it's granted, and ask for grants that it doesn't need, one at a time
// like every other: it takes no more than its share from anybody.
var budgetFile = "/run/sedna/bandwidth"

const (
	// grantTime is how long a grant lasts: short enough for shares that look
	// even, long enough for the next one to arrive in time on a busy node.
	grantTime = 100 * time.Millisecond
	// leastGrant, in bytes, makes grants last longer where there is little to
	// share.
	leastGrant = 64 << 10
	budgetSize = 8
)

// budget is the node's bandwidth, mapped into memory.
type budget struct {
	rate  int64 // bytes per second
	ahead time.Duration
	page  []byte
	until *atomic.Int64 // in page
}

// openBudget opens the account of rate bytes per second, which most downloads
// share.
func openBudget(rate int64, most int) (*budget, error) {
	if err := os.MkdirAll(filepath.Dir(budgetFile), 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of the node's bandwidth: %w", err)
	}
	f, err := os.OpenFile(budgetFile, os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the account of the node's bandwidth: %w", err)
	}
	defer f.Close()
	// Its page has to be there: a full /run would be a SIGBUS later.
	if err := unix.Fallocate(int(f.Fd()), 0, 0, budgetSize); err != nil {
		return nil, fmt.Errorf("make room for the account of the node's bandwidth: %w", err)
	}
	page, err := unix.Mmap(int(f.Fd()), 0, budgetSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map the account of the node's bandwidth: %w", err)
	}
	b := &budget{rate: rate, page: page, until: (*atomic.Int64)(unsafe.Pointer(&page[0]))}
	// Downloads that were killed leave grants too, so that there may be some
	// more than those that run have asked for.
	b.ahead = 2 * time.Duration(most) * b.takes()
	return b, nil
}

func (b *budget) close() { _ = unix.Munmap(b.page) }

// size is that of one grant, bytes.
func (b *budget) size() int64 { return max(leastGrant, b.rate/int64(time.Second/grantTime)) }

// takes is how long one grant takes the bandwidth.
func (b *budget) takes() time.Duration {
	return time.Duration(float64(b.size()) / float64(b.rate) * float64(time.Second))
}

// grant waits for the turn of the next grant and returns its bytes; 0 when ctx
// ends first.
func (b *budget) grant(ctx context.Context) int64 {
	now := monotonic()
	wait := time.NewTimer(time.Duration(b.reserve(now) - now))
	defer wait.Stop()
	select {
	case <-wait.C:
		return b.size()
	case <-ctx.Done():
		return 0
	}
}

// reserve takes the next grant's time and returns when it begins.
func (b *budget) reserve(now int64) int64 {
	for {
		end := b.until.Load()
		begin := max(end, now) // nobody saves up
		if begin-now > int64(b.ahead) {
			begin = now // a number that nobody who runs can have written
		}
		if b.until.CompareAndSwap(end, begin+int64(b.takes())) {
			return begin
		}
	}
}

// monotonic is the clock that all processes of the node share.
func monotonic() int64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // every kernel has it
	return t.Nano()
}
