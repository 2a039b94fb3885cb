// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/containerd/errdefs"
)

// Error is a failure that the worker reported. It unwraps to the errdefs
// sentinel of its kind, so that it reaches containerd with its gRPC code.
type Error struct{ Failure }

// Error implements error: the message as the worker wrote it.
func (e *Error) Error() string { return e.Message }

// kinds maps Failure.Kind to what it unwraps to.
var kinds = map[string]error{
	"invalid_argument":    errdefs.ErrInvalidArgument,
	"not_found":           errdefs.ErrNotFound,
	"permission_denied":   errdefs.ErrPermissionDenied,
	"resource_exhausted":  errdefs.ErrResourceExhausted,
	"unavailable":         errdefs.ErrUnavailable,
	"failed_precondition": errdefs.ErrFailedPrecondition,
	"data_loss":           errdefs.ErrDataLoss,
	"deadline_exceeded":   context.DeadlineExceeded,
	"canceled":            context.Canceled,
}

// Unwrap returns the sentinel of the kind, errdefs.ErrInternal for a kind that
// this build doesn't know.
func (e *Error) Unwrap() error {
	if err, ok := kinds[e.Kind]; ok {
		return err
	}
	return errdefs.ErrInternal
}

// KindOf names the kind of an error as Failure.Kind does: what the worker said,
// else by what it unwraps to.
func KindOf(err error) string {
	var said *Error
	if errors.As(err, &said) {
		if _, ok := kinds[said.Kind]; ok {
			return said.Kind
		}
		return "internal"
	}
	for _, kind := range Kinds() {
		if errors.Is(err, kinds[kind]) {
			return kind
		}
	}
	return "internal"
}

// Kinds lists the kinds that are told apart, sorted; any other is "internal".
func Kinds() []string { return slices.Sorted(maps.Keys(kinds)) }
