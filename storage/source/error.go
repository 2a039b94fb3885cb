// SPDX-License-Identifier: Apache-2.0

package source

import (
	"errors"
	"time"
)

// Error is why a source couldn't do what it was asked. Its text holds no URL
// and no secret; who asked adds the URL.
type Error struct {
	// Kind is one of errdefs' sentinels.
	Kind error
	// Why says what happened, as a clause: "the server answered 404 Not Found".
	Why string
	// Hint says what to do next, as a clause; "" where the cause says it.
	Hint string
	// Transient errors may pass when the same is tried again, no sooner than
	// RetryAfter.
	Transient  bool
	RetryAfter time.Duration
	// Early marks refusals, missing routes and unknown names: they may pass
	// while a new pod's address isn't known everywhere yet.
	Early bool
	// Changed says that the object is no longer the version asked for.
	Changed bool
	// Err is the cause, for errors.Is; its text is never shown.
	Err error
}

// Error implements error.
func (e *Error) Error() string {
	if e.Hint == "" {
		return e.Why
	}
	return e.Why + "; " + e.Hint
}

// Unwrap lets errors.Is see the kind and the cause.
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.Err}
}

// IsTransient says whether trying again may help.
func IsTransient(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Transient
}

// IsChanged says that the object isn't the version that was asked for.
func IsChanged(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Changed
}
