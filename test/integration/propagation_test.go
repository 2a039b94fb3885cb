// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/node"
)

// onlooker is a mount namespace that sees what the node mounts from now on, as
// those of other pods and daemons do where systemd has made all mounts shared.
type onlooker struct{ asks, answers chan string }

func newOnlooker(t *testing.T) onlooker {
	t.Helper()
	if err := unix.Mount("", "/run", "", unix.MS_SHARED, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Mount("", "/run", "", unix.MS_PRIVATE, "") })
	o := onlooker{make(chan string), make(chan string)}
	ready := make(chan error)
	onOwnThread(func() {
		err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS)
		if err == nil {
			err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, "")
		}
		ready <- err
		for file := range o.asks {
			text, _ := os.ReadFile(file)
			o.answers <- string(text)
		}
	})
	if err := <-ready; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { close(o.asks) })
	return o
}

// onOwnThread runs f on a thread that ends with it. It is never the first one,
// which Go keeps, and whose namespaces /proc/self shows.
func onOwnThread(f func()) {
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() != unix.Getpid() {
			f()
			return // locked still: the thread ends
		}
		done := make(chan bool)
		go func() { // not on the first thread: that is held here
			defer close(done)
			onOwnThread(f)
		}()
		<-done
		runtime.UnlockOSThread()
	}()
}

func (o onlooker) read(file string) string {
	o.asks <- file
	return <-o.answers
}

func (o onlooker) mounts() []string {
	return lines(o.read("/proc/thread-self/mountinfo"), " "+runFiles+"/")
}

func TestHostPathsLeaveOtherMountNamespacesToo(t *testing.T) {
	n := testutil.Node(t)
	spec, dir := withHostPaths(t, n, nil)
	other := newOnlooker(t)
	pod := n.RunPod(t, spec)
	container := pod.Start(t, node.ContainerSpec{})
	holds(t, container, "/hostpath"+dir+"/in/file", "in")
	if seen := other.mounts(); len(seen) != 2 {
		t.Errorf("another mount namespace sees %q while the pod runs, so this test shows nothing", seen)
	}
	if err := pod.Remove(testutil.Context(t)); err != nil {
		t.Fatal(err)
	}
	hostPathsGone(t, dir)
	if left := other.mounts(); len(left) > 0 {
		t.Errorf("another mount namespace still has %q", left)
	}
}

func TestDiskBelowAReadOnlyHostPathIsReadOnlyToo(t *testing.T) {
	n := testutil.Node(t)
	spec, dir := withHostPaths(t, n, nil)
	disk := dir + "/in/disk"
	if err := os.Mkdir(disk, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(disk, unix.MNT_DETACH) })
	put(t, disk+"/file", "disk")
	container := n.RunPod(t, spec).Start(t, node.ContainerSpec{})
	holds(t, container, "/hostpath"+dir+"/in/disk/file", "disk")
	contains(t, container.ExecFails(t, "write", "/hostpath"+dir+"/in/disk/file", "x"), "read-only file system")
}
