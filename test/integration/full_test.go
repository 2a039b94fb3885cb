// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
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

// fill keeps a file system full, whatever becomes free, until stop is called:
// then it has room again.
func fill(t *testing.T, dir string) (stop func()) {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, "filled"))
	if err != nil {
		t.Fatal(err)
	}
	full, end, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		var once sync.Once
		for {
			select {
			case <-end:
				return
			default:
			}
			if _, err := f.Write(make([]byte, 4096)); err != nil {
				once.Do(func() { close(full) })
			}
		}
	}()
	<-full
	stop = sync.OnceFunc(func() {
		close(end)
		<-done
		if err := errors.Join(f.Close(), os.Remove(f.Name())); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// What is only for people to see stops no pod that downloads, see
// TestAPodStartsOnANodeWhoseRunIsFull; host paths are mounted there.
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
	t.Cleanup(func() { _ = h.Remove(testutil.Context(t)) }) // what it has in there
	result := starts(t, h.TestPod)
	<-h.gate.Reached
	empty := fill(t, bundles)
	h.gate.Open()
	err := <-result
	if err == nil {
		t.Fatal("the pod started")
	}
	contains(t, err.Error(), "write "+bundles, "no space left on device")
	gone(t)
	empty()
	h.Run(t)
	container := h.Start(t, node.ContainerSpec{})
	sameFiles(t, container.Tree(t, h.dir), map[string][]byte{"model.bin": h.content})
}
