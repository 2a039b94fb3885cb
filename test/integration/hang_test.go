// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/binaries"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/hang"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/node"
)

// hangs makes a folder one of a file system that doesn't answer. What it returns
// ends that, before the end of the test.
func hangs(t *testing.T, dir string, takes bool) (release func()) {
	t.Helper()
	f, err := hang.Mount(dir, takes)
	if err != nil {
		t.Fatal(err)
	}
	released := false
	release = func() {
		if released {
			return
		}
		released = true
		if err := f.Release(); err != nil {
			t.Errorf("release the file system that hangs: %v", err)
		}
	}
	t.Cleanup(release)
	return release
}

// The pod's volume is on a file system that doesn't answer: its Create fails in
// time and says so, while the shim and other pods live on.
func TestAVolumeThatHangsFailsThePodInTime(t *testing.T) {
	n := testutil.Node(t)
	server := n.Web(t)
	url := server.File("/model", []byte("x"))
	dir, config := hostFolder(t, false, "*")
	put(t, dir+"/data/file", "data")
	n.Configure(t, configured, config)
	keys := node.Volume{Name: "keys", Kind: node.Secret, Files: map[string]string{"ACCESS_KEY_ID": "k", "SECRET_ACCESS_KEY": "s"}}
	var hanging []*hung
	var ended sync.WaitGroup
	ctx := testutil.Context(t)
	for _, tt := range []struct {
		name  string
		takes bool
		spec  map[string]string
		dir   func(testutil.TestPod) string
		says  string
	}{
		{"for downloads", false, map[string]string{"model.url": url}, func(p testutil.TestPod) string { return p.VolumeDir(volume) }, `the pod's volume "` + volume + `"`},
		{"for downloads, and takes requests", true, map[string]string{"model.url": url}, func(p testutil.TestPod) string { return p.VolumeDir(volume) }, `the pod's volume "` + volume + `"`},
		{"of keys", false, map[string]string{"model.url": url, "secret": "keys"}, func(p testutil.TestPod) string { return p.VolumeDir("keys") }, `the pod's volume "keys"`},
		{"of the node", false, map[string]string{"data.url": dir + "/data/"}, func(testutil.TestPod) string { return dir + "/data" }, "the node's folder " + dir + "/data"},
	} {
		pod := n.NewPod(t, node.PodSpec{Handler: configured, Volumes: []node.Volume{downloadVolume(), keys}, Annotations: asks(tt.spec)})
		hanging = append(hanging, &hung{name: tt.name, says: tt.says, release: hangs(t, tt.dir(pod), tt.takes)})
		h := hanging[len(hanging)-1]
		ended.Go(func() { h.err = pod.Pod.Run(ctx) })
	}
	for _, process := range awaitShims(t, len(hanging)) {
		shim, id := dial(t, process)
		asksAround(t, shim, id)
	}
	other := n.RunPod(t, node.PodSpec{})
	if err := other.Remove(testutil.Context(t)); err != nil {
		t.Error(err)
	}
	ended.Wait()
	for _, h := range hanging {
		if h.err == nil {
			t.Errorf("%s: the pod started", h.name)
			continue
		}
		contains(t, h.err.Error(), h.says, "hasn't answered for")
	}
	for _, h := range hanging {
		h.release()
	}
	gone(t)
}

// hung is a pod with a volume that hangs.
type hung struct {
	name, says string
	release    func()
	err        error // of its start
}

// awaitShims waits until so many processes serve.
func awaitShims(t *testing.T, want int) (found []node.Process) {
	t.Helper()
	err := node.Poll(testutil.Context(t), 30*time.Second, func(context.Context) (err error) {
		if found, err = shims(); err == nil && len(found) != want {
			err = fmt.Errorf("%d shims serve, want %d", len(found), want)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// gone waits until no process of a pod is left.
func gone(t *testing.T) {
	t.Helper()
	if err := node.Poll(testutil.Context(t), 30*time.Second, func(context.Context) error { return noShimLeft() }); err != nil {
		t.Error(err)
	}
}

// A container's volume has begun to hang since its pod was started.
func TestAContainerWhoseVolumeHangsFailsInTime(t *testing.T) {
	n := testutil.Node(t)
	for name, asked := range map[string]map[string]string{
		"beside downloads": asks(map[string]string{"model.url": n.Web(t).File("/model", []byte("x"))}),
		"in a plain pod":   nil,
	} {
		t.Run(name, func(t *testing.T) {
			if _, version, err := binaries.Containerd(); err != nil || version != "" && asked == nil {
				t.Skipf("containerd %s keeps the task of such a container, see docs/compatibility.md (%v)", version, err)
			}
			pod := n.RunPod(t, node.PodSpec{Volumes: []node.Volume{downloadVolume(), {Name: "data"}}, Annotations: asked})
			running := pod.Start(t, node.ContainerSpec{})
			held, err := pod.Create(testutil.Context(t), node.ContainerSpec{Mounts: []node.Mount{{Volume: "data", Path: "/data"}}})
			if err != nil {
				t.Fatal(err)
			}
			release := hangs(t, pod.VolumeDir("data"), false)
			ctx, cancel := context.WithTimeout(testutil.Context(t), 8*time.Second)
			defer cancel()
			result := make(chan error, 1)
			go func() {
				_, err := n.CRI.StartContainer(ctx, &runtimeapi.StartContainerRequest{ContainerId: held.ID})
				result <- err
			}()
			shim, _ := dialShim(t)
			asksAround(t, shim, held.ID)
			err = <-result
			t.Log(err)
			if err == nil {
				t.Fatal("the container started")
			}
			if got := running.Exec(t, "env", "PATH"); got == "" {
				t.Error("the other container doesn't answer")
			}
			if err := pod.Remove(testutil.Context(t)); err != nil {
				t.Error(err)
			}
			gone(t)
			release()
		})
	}
}

// The shim keeps its signals from the thread that touches volumes. A child that
// was started there would never hear SIGTERM.
func TestNoChildOfTheShimIsDeaf(t *testing.T) {
	h := newHalfway(t, node.Sedna)
	result := starts(t, h.TestPod)
	<-h.gate.Reached
	hears(t, binaries.Worker)
	h.gate.Open()
	if err := <-result; err != nil {
		t.Fatal(err)
	}
	h.Start(t, node.ContainerSpec{})
	hears(t, "runsc-sandbox")
	hears(t, "runsc-gofer")
}

// hears fails if a process of the program blocks a signal that ends it.
func hears(t *testing.T, program string) {
	t.Helper()
	found, err := node.Find(program)
	if err != nil || len(found) == 0 {
		t.Fatalf("%s: %v, %v", program, found, err)
	}
	for _, process := range found {
		var mask uint64
		for _, line := range lines(text(t, fmt.Sprintf("/proc/%d/status", process.PID)), "SigBlk:") {
			if _, err := fmt.Sscanf(line, "SigBlk: %x", &mask); err != nil {
				t.Fatal(err)
			}
		}
		if mask&(1<<(unix.SIGTERM-1)) != 0 {
			t.Errorf("%s blocks SIGTERM: %x", program, mask)
		}
	}
}
