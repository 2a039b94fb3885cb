// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	taskapi "github.com/containerd/containerd/api/runtime/task/v2"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/errdefs"
	"github.com/containerd/errdefs/pkg/errgrpc"
	"github.com/containerd/ttrpc"
	"golang.org/x/sys/unix"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/binaries"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/node"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/web"
)

// dialShim speaks to the one shim that runs. It returns the sandbox's id too.
func dialShim(t *testing.T) (taskapi.TaskService, string) {
	t.Helper()
	process, err := oneShim()
	if err != nil {
		t.Fatal(err)
	}
	return dial(t, process)
}

// dial speaks to a shim as containerd does.
func dial(t *testing.T, process node.Process) (taskapi.TaskService, string) {
	t.Helper()
	bundle, err := process.Dir()
	if err != nil {
		t.Fatal(err)
	}
	address, err := os.ReadFile(filepath.Join(bundle, "address"))
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("unix", strings.TrimPrefix(string(address), "unix://"))
	if err != nil {
		t.Fatal(err)
	}
	client := ttrpc.NewClient(conn)
	t.Cleanup(func() { client.Close() })
	return taskapi.NewTaskClient(client), filepath.Base(bundle)
}

// shims are the shim's processes that serve, without its other commands.
func shims() ([]node.Process, error) {
	found, err := node.Find(binaries.Shim)
	return slices.DeleteFunc(found, func(p node.Process) bool {
		return len(p.Args) < 3 || p.Args[len(p.Args)-2] != "-id" // a command, or -info
	}), err
}

// oneShim returns the one that serves.
func oneShim() (node.Process, error) {
	found, err := shims()
	if err == nil && len(found) != 1 {
		err = fmt.Errorf("shims: %v; want one", found)
	}
	if err != nil {
		return node.Process{}, err
	}
	return found[0], nil
}

// answer is how soon everything but Create has to answer, on a busy machine too.
const answer = time.Second

// answers checks that a call of the shim takes no longer.
func answers(t *testing.T, name string, call func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(namespaces.WithNamespace(context.Background(), "k8s.io"), 10*time.Second)
	defer cancel()
	began := time.Now()
	err := errgrpc.ToNative(call(ctx))
	took := time.Since(began)
	if took > answer {
		t.Errorf("%s answered after %s: %v", name, took, err)
	}
	if err != nil && !errdefs.IsNotFound(err) { // there's no such container yet
		t.Errorf("%s: %v", name, err)
	}
}

// asksAround sends all calls that end nothing.
func asksAround(t *testing.T, shim taskapi.TaskService, id string) {
	t.Helper()
	answers(t, "State", func(ctx context.Context) error {
		_, err := shim.State(ctx, &taskapi.StateRequest{ID: id})
		return err
	})
	answers(t, "Pids", func(ctx context.Context) error {
		_, err := shim.Pids(ctx, &taskapi.PidsRequest{ID: id})
		return err
	})
	answers(t, "Connect", func(ctx context.Context) error {
		_, err := shim.Connect(ctx, &taskapi.ConnectRequest{ID: id})
		return err
	})
}

// phase is a moment in a Create that downloads. reach gets a pod there and keeps
// it, until release lets it go on.
type phase struct {
	name  string
	reach func(t *testing.T, n testutil.TestNode) (pod testutil.TestPod, result chan error, release func())
}

// starts runs a pod in the background.
func starts(t *testing.T, pod testutil.TestPod) chan error {
	t.Helper()
	ctx := testutil.Context(t)
	result := make(chan error, 1)
	go func() { result <- pod.Pod.Run(ctx) }()
	return result
}

var phases = []phase{
	{"while it waits for a slot", func(t *testing.T, n testutil.TestNode) (testutil.TestPod, chan error, func()) {
		release := takeSlots(t)
		n.Configure(t, configured, "[storage]\nmax_workers = 1\n")
		url := n.Web(t).File("/model", []byte("x"))
		since := n.LogSize()
		pod := n.NewPod(t, node.PodSpec{
			Handler: configured, Volumes: []node.Volume{downloadVolume()}, Annotations: asks(map[string]string{"model.url": url}),
		})
		result := starts(t, pod)
		waitFor(t, "a pod that waits", func() bool { return strings.Contains(n.Log(since, 1000), "waiting for one of the node's") })
		return pod, result, release
	}},
	{"while its worker starts", func(t *testing.T, n testutil.TestNode) (testutil.TestPod, chan error, func()) {
		pod := badWorker(t, n, "silent")
		result := starts(t, pod)
		waitFor(t, "the worker", func() bool { return workerLeft("silent") != nil })
		return pod, result, func() {}
	}},
	{"while it downloads", func(t *testing.T, n testutil.TestNode) (testutil.TestPod, chan error, func()) {
		h := newHalfway(t, node.Sedna)
		result := starts(t, h.TestPod)
		<-h.gate.Reached
		return h.TestPod, result, h.gate.Open
	}},
	{"while it unpacks", func(t *testing.T, n testutil.TestNode) (testutil.TestPod, chan error, func()) {
		url, gate := n.Web(t).Gated("/data.tar", tarball(t, 4<<20), 1<<20)
		pod := n.NewPod(t, node.PodSpec{Volumes: []node.Volume{downloadVolume()}, Annotations: asks(map[string]string{"data.url": url})})
		result := starts(t, pod)
		<-gate.Reached
		return pod, result, gate.Open
	}},
	{"while its worker finishes", func(t *testing.T, n testutil.TestNode) (testutil.TestPod, chan error, func()) {
		pod := badWorker(t, n, "done") // it has reported and doesn't end
		result := starts(t, pod)
		waitFor(t, "the worker", func() bool { return workerLeft("done") != nil })
		return pod, result, func() {}
	}},
	{"while runsc creates", func(t *testing.T, n testutil.TestNode) (testutil.TestPod, chan error, func()) {
		runsc, release := heldRunsc(t)
		url := n.Web(t).File("/model", []byte("x"))
		n.ConfigureFirst(t, configured, fmt.Sprintf("binary_name = %q\n", runsc))
		pod := n.NewPod(t, node.PodSpec{
			Handler: configured, Volumes: []node.Volume{downloadVolume()}, Annotations: asks(map[string]string{"model.url": url}),
		})
		result := starts(t, pod)
		waitFor(t, "runsc", func() bool {
			found, err := node.Find("sleep", held)
			return err == nil && len(found) > 0
		})
		return pod, result, release
	}},
}

// Kill, Delete and Shutdown end a Create, wherever it is, and they and all other
// calls are answered at once.
func TestEveryCallIsAnsweredAtOnceInEveryPhaseOfCreate(t *testing.T) {
	for _, phase := range phases {
		t.Run(phase.name, func(t *testing.T) {
			for name, end := range map[string]func(ctx context.Context, shim taskapi.TaskService, id string) error{
				"Kill": func(ctx context.Context, shim taskapi.TaskService, id string) error {
					_, err := shim.Kill(ctx, &taskapi.KillRequest{ID: id, Signal: 9})
					return err
				},
				"Delete": func(ctx context.Context, shim taskapi.TaskService, id string) error {
					_, err := shim.Delete(ctx, &taskapi.DeleteRequest{ID: id})
					return err
				},
				"Shutdown": func(ctx context.Context, shim taskapi.TaskService, id string) error {
					_, err := shim.Shutdown(ctx, &taskapi.ShutdownRequest{ID: id})
					if errors.Is(err, ttrpc.ErrClosed) {
						return nil // containerd too takes that for an answer
					}
					return err
				},
			} {
				t.Run(name, func(t *testing.T) {
					n := testutil.Node(t)
					pod, result, release := phase.reach(t, n)
					defer release()
					shim, id := dialShim(t)
					asksAround(t, shim, id)
					answers(t, name, func(ctx context.Context) error { return end(ctx, shim, id) })
					if err := <-result; err == nil {
						t.Error("the pod started")
					}
					if err := pod.Remove(testutil.Context(t)); err != nil {
						t.Error(err)
					}
					gone(t)
				})
			}
		})
	}
}

// Whoever dies in the middle of a Create, wherever that is: nothing stays.
func TestADeathInAnyPhaseOfCreateLeavesNothing(t *testing.T) {
	for _, phase := range phases {
		t.Run(phase.name, func(t *testing.T) {
			for _, victim := range []string{binaries.Shim, "containerd"} {
				t.Run(victim, func(t *testing.T) {
					n := testutil.Node(t)
					pod, result, release := phase.reach(t, n)
					defer release()
					kill(t, victim)
					if err := <-result; err == nil {
						t.Error("the pod started")
					}
					if victim == "containerd" {
						restart(t, n)
					}
					if err := pod.Remove(testutil.Context(t)); err != nil {
						t.Error(err)
					}
					gone(t)
				})
			}
		})
	}
}

// held is how long a runsc sleeps that a test holds, in the words of sleep.
const held = "77777"

// heldRunsc is a runsc whose create sleeps until it is released or ended.
func heldRunsc(t *testing.T) (path string, release func()) {
	return heldRunscThat(t, "")
}

// heldRunscThat does something before: its container's id is $id.
func heldRunscThat(t *testing.T, does string) (path string, release func()) {
	t.Helper()
	_, tools, err := binaries.Dirs()
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "runsc")
	script := fmt.Sprintf(`#!/bin/sh
for id; do :; done
case " $* " in *" create "*) %s
	exec sleep %s ;;
esac
exec %s "$@"
`, does, held, filepath.Join(tools, "runsc"))
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return path, func() {
		found, _ := node.Find("sleep", held)
		for _, process := range found {
			_ = process.Kill()
		}
	}
}

// takeSlots holds the node's first download slot.
func takeSlots(t *testing.T) (release func()) {
	t.Helper()
	if err := os.MkdirAll(slotFiles, 0o700); err != nil {
		t.Fatal(err)
	}
	slot, err := os.OpenFile(filepath.Join(slotFiles, "0"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { slot.Close() })
	if err := unix.FcntlFlock(slot.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK}); err != nil {
		t.Fatal(err)
	}
	return func() { slot.Close() }
}

// slotFiles is where a download holds the lock of one file.
const slotFiles = "/run/sedna/slots"

// tarball is an archive of one file of this size.
func tarball(t *testing.T, size int) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	if err := w.WriteHeader(&tar.Header{Name: "file", Mode: 0o644, Size: int64(size)}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(web.Bytes(size)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
