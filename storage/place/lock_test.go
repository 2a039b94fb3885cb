// SPDX-License-Identifier: Apache-2.0

package place

import (
	"context"
	"errors"
	"os"
	"testing"
)

func openTree(t *testing.T, dir string) *Tree {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	tree, err := Open(root)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func TestTwoProcessesNeverFillOneVolumeAtOnce(t *testing.T) {
	dir := t.TempDir()
	first, second := openTree(t, dir), openTree(t, dir)
	defer second.Close()
	if err := first.Lock(t.Context(), func() { t.Error("waited for nobody") }); err != nil {
		t.Fatal(err)
	}
	why := errors.New("out of time")
	ctx, cancel := context.WithCancelCause(t.Context())
	if err := second.Lock(ctx, func() { cancel(why) }); !errors.Is(err, why) {
		t.Fatalf("got %v, want that it waited until %v", err, why)
	}
	waited := false
	err := second.Lock(t.Context(), func() {
		waited = true
		first.Close() // as the end of its process does
	})
	if err != nil || !waited {
		t.Errorf("waited %v, then got %v; want the lock", waited, err)
	}
}
