// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/sedna-io/containerd-shim-sedna/shim/bundle"
)

func loadBundle(t *testing.T, dir string) *bundle.Bundle {
	t.Helper()
	b, err := bundle.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestDeleteRemovesTheContainersEmptyCgroupOnly(t *testing.T) {
	root := t.TempDir()
	previous := cgroupRoot
	cgroupRoot = root
	t.Cleanup(func() { cgroupRoot = previous })
	for _, dir := range []string{
		"memory/kubepods/pod1/box", "cpu/kubepods/pod1/box", "cpu/kubepods/pod1/other", "pids/kubepods/pod1/box/busy", "kubepods/pod1/box",
	} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	remove := func(cgroupsPath string) {
		t.Helper()
		dir := t.TempDir()
		spec := fmt.Sprintf(`{"ociVersion":"1.2.0","linux":{"cgroupsPath":%q}}`, cgroupsPath)
		if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(spec), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := removeCgroup(loadBundle(t, dir), "box"); err != nil && !os.IsExist(err) {
			t.Fatal(err)
		}
	}
	for _, foreign := range []string{"", "kubepods/pod1/box", "kubepods.slice:cri-containerd:box", "/kubepods/pod1/other"} {
		remove(foreign)
	}
	remains := func(dir string, want bool) {
		t.Helper()
		if _, err := os.Stat(filepath.Join(root, dir)); (err == nil) != want {
			t.Errorf("%s: still there is %v, want %v", dir, err == nil, want)
		}
	}
	remains("memory/kubepods/pod1/box", true)
	remove("/kubepods/pod1/box")
	remains("memory/kubepods/pod1/box", false)
	remains("cpu/kubepods/pod1/box", false)
	remains("kubepods/pod1/box", false)
	remains("cpu/kubepods/pod1/other", true)
	remains("pids/kubepods/pod1/box/busy", true)
}
