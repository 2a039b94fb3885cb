// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/node"
)

// small mounts a file system with so little room over a folder of the node.
func small(t *testing.T, dir, options string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Errorf("something still uses %s: %v", dir, err)
		}
	})
}

// fill writes until a file system is full.
func fill(t *testing.T, dir string) {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, "filled"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
}

// What is only for people to see, and the count of the node's downloads, must
// stop no pod.
func TestAFullRunFolderStopsNoDownload(t *testing.T) {
	n := testutil.Node(t)
	small(t, "/run/sedna", "size=4k,nr_inodes=1")
	server := n.Web(t)
	since := n.LogSize()
	pod := n.RunPod(t, node.PodSpec{
		Volumes: []node.Volume{downloadVolume()}, Annotations: asks(map[string]string{"model.url": server.File("/model", []byte("x"))}),
	})
	holds(t, pod.Start(t, node.ContainerSpec{}), downloads+"/"+server.Host()+"/model", "x")
	contains(t, n.Log(since, 1000), "no space left on device", "aren't counted")
	if err := pod.Remove(testutil.Context(t)); err != nil {
		t.Error(err)
	}
}

func TestAFullRunFolderFailsWhoNeedsIt(t *testing.T) {
	n := testutil.Node(t)
	spec, dir := withHostPaths(t, n, nil)
	small(t, "/run/sedna", "size=4k,nr_inodes=1")
	pod := n.NewPod(t, spec)
	contains(t, pod.RunFails(t), "host path "+dir+"/in", "no space left on device")
	gone(t)
}

// The folder of the bundles fills up while a pod downloads: what was decided about
// it can't be written down, so it doesn't start.
func TestAFullBundleFolderFailsThePod(t *testing.T) {
	h := newHalfway(t, node.Sedna)
	bundles := filepath.Join(node.StateDir, "io.containerd.runtime.v2.task/k8s.io")
	small(t, bundles, "size=2m")
	result := starts(t, h.TestPod)
	<-h.gate.Reached
	fill(t, bundles)
	h.gate.Open()
	err := <-result
	if err == nil {
		t.Fatal("the pod started")
	}
	contains(t, err.Error(), "no space left on device")
	gone(t)
	if err := os.Remove(filepath.Join(bundles, "filled")); err != nil {
		t.Error(err)
	}
	h.succeeds(t)
	if err := h.Remove(testutil.Context(t)); err != nil {
		t.Error(err)
	}
}
