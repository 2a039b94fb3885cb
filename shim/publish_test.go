// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"errors"
	"testing"

	"github.com/containerd/containerd/v2/core/events"
	containerdshim "github.com/containerd/containerd/v2/pkg/shim"
)

// away is containerd while it is restarted.
type away struct{ containerdshim.Publisher }

func (away) Publish(context.Context, string, events.Event) error {
	return errors.New("connection refused")
}

func TestAnEventThatNobodyTakesIsNoFailure(t *testing.T) {
	if err := (publisher{away{}}).Publish(t.Context(), "/tasks/exit", nil); err != nil {
		t.Errorf("got %v", err)
	}
}
