// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/containerd/errdefs"

	"github.com/sedna-io/containerd-shim-sedna/storage/worker"
)

// FetchError says which item failed. Its text is one line for a person.
type FetchError struct {
	Mounts []string // the mounts that asked for it; none for a person's fetch
	URL    string   // redacted
	Err    error    // what happened and what to do next
}

// Error implements error.
func (e *FetchError) Error() string {
	if len(e.Mounts) == 0 {
		return fmt.Sprintf("fetch %s: %v", e.URL, e.Err)
	}
	return fmt.Sprintf("fetch %s for mount %s: %v", e.URL, strings.Join(e.Mounts, ", "), e.Err)
}

// Unwrap lets errors.Is see the kind.
func (e *FetchError) Unwrap() error { return e.Err }

func itemError(item *worker.Item, err error) error {
	if err == nil || errors.Is(err, context.Canceled) && !errors.As(err, new(*FetchError)) {
		return err
	}
	if errors.As(err, new(*FetchError)) {
		return err
	}
	return &FetchError{Mounts: item.Mounts, URL: item.URL.String(), Err: err}
}

// kinds are the failures that a worker tells apart, the first match counts.
var kinds = []struct {
	err  error
	name string
}{
	{context.Canceled, "canceled"},
	{context.DeadlineExceeded, "deadline_exceeded"},
	{errdefs.ErrInvalidArgument, "invalid_argument"},
	{errdefs.ErrAlreadyExists, "invalid_argument"}, // two things under one name
	{errdefs.ErrNotFound, "not_found"},
	{errdefs.ErrPermissionDenied, "permission_denied"},
	{errdefs.ErrResourceExhausted, "resource_exhausted"},
	{syscall.ENOSPC, "resource_exhausted"},
	{syscall.EDQUOT, "resource_exhausted"},
	{errdefs.ErrDataLoss, "data_loss"},
	{errdefs.ErrUnavailable, "unavailable"},
}

// AsFailure makes an error of Run ready for the pipe to the shim.
func AsFailure(err error) worker.Failure {
	f := worker.Failure{Kind: "internal", Message: oneLine(err.Error())}
	for _, k := range kinds {
		if errors.Is(err, k.err) {
			f.Kind = k.name
			break
		}
	}
	return f
}

// oneLine keeps what a server or a file name says from breaking a log.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
}
