// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"errors"
	"testing"
)

func TestDownloadsBeyondTheNodesNumberWait(t *testing.T) {
	previous := slotsDir
	slotsDir = t.TempDir() + "/slots"
	t.Cleanup(func() { slotsDir = previous })
	never := func() { t.Error("waited although a slot was free") }
	first, err := takeSlot(t.Context(), 2, never)
	if err != nil {
		t.Fatal(err)
	}
	second, err := takeSlot(t.Context(), 2, never)
	if err != nil {
		t.Fatal(err)
	}
	defer second()

	why := errors.New("the pod was killed")
	ctx, cancel := context.WithCancelCause(t.Context())
	if _, err := takeSlot(ctx, 2, func() { cancel(why) }); !errors.Is(err, why) {
		t.Errorf("got %v, want that it waited until %v", err, why)
	}
	waited := false
	third, err := takeSlot(t.Context(), 2, func() { waited = true; first() })
	if err != nil || !waited {
		t.Fatalf("waited %v, then %v; want the slot that was given back", waited, err)
	}
	third()
}
