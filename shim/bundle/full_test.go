// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestAFullDiskLeavesTheOldFileWhole(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("no small file system to be had: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	config := `{"ociVersion":"1","annotations":{"a":"` + strings.Repeat("x", 8<<10) + `"}}`
	if err := os.WriteFile(filepath.Join(dir, configName), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	b := load(t, dir)
	b.Spec.Annotations["b"] = "1"
	rest, err := os.Create(filepath.Join(dir, "rest"))
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = rest.Write(make([]byte, 4096))
	}
	if _, err := b.Save(); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("the error is %v", err)
	}
	if got := read(t, dir); got != config {
		t.Errorf("the file became %d bytes", len(got))
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
		t.Errorf("the bundle holds %v, %v", left, err)
	}
	if err := errors.Join(rest.Close(), os.Remove(rest.Name())); err != nil { // an open file keeps its room
		t.Fatal(err)
	}
	if changed, err := b.Save(); err != nil || !changed {
		t.Errorf("with room again: %t, %v", changed, err)
	}
}
