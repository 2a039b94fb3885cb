// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"gvisor.dev/gvisor/pkg/shim/v1/runsc"
)

func TestDeleteRemovesLocksWithoutAState(t *testing.T) {
	root, dir := t.TempDir(), t.TempDir()
	state := runsc.State{Options: runsc.Options{Root: root}}
	if err := state.Save(dir); err != nil {
		t.Fatal(err)
	}
	spec := `{"ociVersion":"1.2.0","annotations":{"io.kubernetes.cri.sandbox-id":"box"}}`
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(spec), 0o644); err != nil {
		t.Fatal(err)
	}
	files := filepath.Join(root, "k8s.io")
	if err := os.Mkdir(files, 0o700); err != nil {
		t.Fatal(err)
	}
	remains := func(made ...string) []string {
		t.Helper()
		for _, name := range made {
			if err := os.WriteFile(filepath.Join(files, name), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 { // again and again
			if err := removeLocks(loadBundle(t, dir), "k8s.io", "app"); err != nil {
				t.Fatal(err)
			}
		}
		entries, err := os.ReadDir(files)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}
	alive := []string{"box_sandbox:box.lock", "box_sandbox:box.state", "other_sandbox:box.lock", "runsc-box.sock", "runsc-other.sock"}
	if got := remains(append(alive, "app_sandbox:box.lock")...); !slices.Equal(got, alive) {
		t.Errorf("with a living sandbox: %v remain, want %v", got, alive)
	}
	if err := os.Remove(filepath.Join(files, "box_sandbox:box.state")); err != nil {
		t.Fatal(err)
	}
	if got, want := remains(), []string{"other_sandbox:box.lock", "runsc-other.sock"}; !slices.Equal(got, want) {
		t.Errorf("without one: %v remain, want %v", got, want)
	}
}
