// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"errors"
	"fmt"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/containerd/errdefs/pkg/errgrpc"
)

func TestAnErrorIsOneLineAtTheOtherEnd(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want string
	}{
		{fmt.Errorf("read: %w: %w", errors.New("reset"), errdefs.ErrUnavailable), "read: reset: unavailable"},
		{errors.Join(fmt.Errorf("here: %w", errdefs.ErrNotFound), errors.New("there")), "here: not found; there"},
		{errors.New("plain"), "plain"},
	} {
		got := errgrpc.ToNative(toGRPC(tt.err))
		if got.Error() != tt.want {
			t.Errorf("%q arrives as %q, want %q", tt.err, got, tt.want)
		}
		if errdefs.IsUnavailable(got) != errdefs.IsUnavailable(tt.err) || errdefs.IsNotFound(got) != errdefs.IsNotFound(tt.err) {
			t.Errorf("%q arrives as another kind", tt.err)
		}
	}
	if toGRPC(nil) != nil {
		t.Error("nothing became an error")
	}
}
