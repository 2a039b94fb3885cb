// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"os"
	"path/filepath"
	"testing"
)

func TestASealLastsAsLongAsNoContainerMayWrite(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "u1", "volumes", emptyDirPlugin, "models"), 0o777); err != nil {
		t.Fatal(err)
	}
	v := &PodVolumes{uid: "u1", podsDir: dir, found: true}
	if err := v.Unseal(""); err != nil { // a pod without any
		t.Fatal(err)
	}
	seal := func() string {
		t.Helper()
		s, err := v.Seal("models")
		if err != nil || len(s) < 16 {
			t.Fatalf("seal is %q, %v", s, err)
		}
		return s
	}
	first := seal()
	if err := v.Unseal("models"); err != nil {
		t.Fatal(err)
	}
	if again := seal(); again != first {
		t.Errorf("it became %q, was %q", again, first)
	}
	for _, other := range []string{"", "other"} {
		if err := v.Unseal(other); err != nil {
			t.Fatal(err)
		}
		if fresh := seal(); fresh == first {
			t.Errorf("it outlived a sandbox in which %q was what only we write", other)
		}
	}
	if files, err := os.ReadDir(filepath.Join(dir, "u1", "volumes", emptyDirPlugin, "models")); err != nil || len(files) != 0 {
		t.Errorf("the volume holds %v, %v", files, err)
	}
}
