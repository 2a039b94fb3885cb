// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/containerd/errdefs"
)

// Retry says how often and how soon something is tried again.
type Retry struct {
	// Tries without any progress end it.
	Tries int
	// Base is the first wait; each is twice the one before, up to Max.
	Base, Max time.Duration
	// Longest is the longest Retry-After that is waited for.
	Longest time.Duration
	// Stall is how long a request may bring nothing.
	Stall time.Duration
	// Early is until when Error.Early counts as transient.
	Early time.Time
	// Again is told each error that is worth another try; nil for nobody.
	Again func(error)
}

// errStalled is why a request that brings nothing ends.
var errStalled = errors.New("stalled")

// Wait says whether err is worth another try, and after how long. tries counts
// those without progress, this one included; once says that the source has
// answered before, so that a refusal is no wrong address.
func (r *Retry) Wait(ctx context.Context, err error, tries int, once bool) (time.Duration, bool) {
	var e *Error
	if !errors.As(err, &e) || tries >= r.Tries {
		// An early refusal may outlast the tries.
		if e == nil || !r.early(e) {
			return 0, false
		}
	}
	if !e.Transient && !r.early(e) && (!e.Early || !once) {
		return 0, false
	}
	wait := min(r.Base<<min(tries-1, 20), r.Max)
	wait = wait/2 + rand.N(wait/2+1) //nolint:gosec // it only spreads the load
	if e.RetryAfter > wait {
		wait = e.RetryAfter
	}
	deadline, bounded := ctx.Deadline()
	if wait > r.Longest || bounded && time.Until(deadline) < wait {
		return 0, false
	}
	if r.Again != nil {
		r.Again(err)
	}
	return wait, true
}

func (r *Retry) early(e *Error) bool { return e.Early && time.Now().Before(r.Early) }

// Do tries f until it works, fails for good, or ctx ends. Each try's context
// ends when it takes longer than a stall may.
func (r *Retry) Do(ctx context.Context, f func(context.Context) error) error {
	for tries := 1; ; tries++ {
		err := r.once(ctx, f)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		wait, again := r.Wait(ctx, err, tries, false)
		if !again {
			return Tried(err, tries)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(wait):
		}
	}
}

func (r *Retry) once(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, r.Stall, errStalled)
	defer cancel()
	err := f(ctx)
	if err != nil && errors.Is(context.Cause(ctx), errStalled) {
		return Stalled(r.Stall)
	}
	return err
}

// Stalled is the error of a request that brought nothing for so long.
func Stalled(d time.Duration) *Error {
	return &Error{
		Kind: errdefs.ErrUnavailable, Transient: true, Err: errStalled,
		Why: fmt.Sprintf("no data came for %s", d),
	}
}

// Tried adds how often it was tried, where it was more than once.
func Tried(err error, tries int) error {
	var e *Error
	if tries < 2 || !errors.As(err, &e) {
		return err
	}
	told := *e
	told.Why += fmt.Sprintf(" (tried %d times)", tries)
	if e.RetryAfter > 0 {
		told.Why += fmt.Sprintf(" and asks to wait %s", e.RetryAfter)
	}
	return &told
}
