// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/binaries"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/node"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/web"
)

// halfway is a pod whose download waits in the middle until its gate opens.
type halfway struct {
	testutil.TestPod
	node    testutil.TestNode
	gate    *web.Gate
	content []byte
	dir     string // of the download in a container
}

func newHalfway(t *testing.T, handler string) halfway {
	return newHalfwayOf(t, handler, 8<<20, 3<<20)
}

func newHalfwayOf(t *testing.T, handler string, size, after int) halfway {
	n := testutil.Node(t)
	server := n.Web(t)
	h := halfway{node: n, content: web.Bytes(size), dir: downloads + "/" + server.Host()}
	var url string
	url, h.gate = server.Gated("/model.bin", h.content, after)
	h.TestPod = n.NewPod(t, node.PodSpec{
		Handler:     handler,
		Volumes:     []node.Volume{downloadVolume()},
		Annotations: asks(map[string]string{"model.url": url}),
	})
	return h
}

// interrupt runs the pod, does something while the download hangs, and returns
// the error with which the pod then failed.
func (h halfway) interrupt(t *testing.T, ctx context.Context, do func()) error {
	t.Helper()
	result := make(chan error, 1)
	go func() { result <- h.Pod.Run(ctx) }()
	select {
	case <-h.gate.Reached:
	case err := <-result:
		t.Fatalf("the pod was done before its download: %v", err)
	case <-time.After(time.Minute):
		t.Fatal("no download began")
	}
	do()
	err := <-result
	if err == nil {
		t.Fatal("the pod started without its model")
	}
	t.Log(err)
	return err
}

// succeeds checks that the failed attempt left nothing, and that another one
// brings the pod up.
func (h halfway) succeeds(t *testing.T) {
	t.Helper()
	noFinalFiles(t, h.TestPod)
	// kubelet too asks again while containerd still holds the name of the
	// attempt that it is cleaning up.
	err := node.Poll(testutil.Context(t), 30*time.Second, func(context.Context) error {
		return noShimLeft()
	})
	if err != nil {
		t.Error(err)
	}
	h.gate.Open()
	h.Run(t)
	container := h.Start(t, node.ContainerSpec{})
	sameFiles(t, container.Tree(t, h.dir), map[string][]byte{"model.bin": h.content})
}

func noShimLeft() error {
	for _, program := range []string{binaries.Shim, binaries.Worker, "runsc", "runsc-sandbox"} {
		found, err := node.Find(program)
		if err != nil {
			return err
		}
		if len(found) > 0 {
			return errors.New("still running: " + found[0].Command())
		}
	}
	return nil
}

// kill ends the processes of a program without warning.
func kill(t *testing.T, program string) {
	t.Helper()
	found, err := node.Find(program)
	if err != nil {
		t.Fatal(err)
	}
	if len(found) == 0 {
		t.Fatalf("no %s is running", program)
	}
	for _, process := range found {
		if err := process.Kill(); err != nil {
			t.Errorf("kill %s: %v", process.Command(), err)
		}
	}
}

func TestShimKilledWhileItDownloads(t *testing.T) {
	h := newHalfway(t, node.Sedna)
	since := h.node.LogSize()
	h.interrupt(t, testutil.Context(t), func() { kill(t, binaries.Shim) })
	h.succeeds(t)
	// containerd ran the delete tool on a bundle that gVisor has never seen.
	for _, line := range lines(h.node.Log(since, 1000), "level=") {
		if strings.Contains(line, "failed to delete dead shim") {
			t.Errorf("the delete tool failed: %s", line)
		}
	}
}

func TestWorkerKilledWhileItDownloads(t *testing.T) {
	h := newHalfway(t, node.Sedna)
	err := h.interrupt(t, testutil.Context(t), func() { kill(t, binaries.Worker) })
	contains(t, err.Error(), "sedna-storage", "killed")
	h.succeeds(t)
}

func TestCreateCancelledWhileItDownloads(t *testing.T) {
	h := newHalfway(t, node.Sedna)
	ctx, cancel := context.WithCancel(testutil.Context(t))
	defer cancel()
	h.interrupt(t, ctx, cancel)
	h.succeeds(t)
}

func TestDeadlineErrorSaysHowFarTheDownloadGot(t *testing.T) {
	h := newHalfway(t, hasty)
	// Long enough for the margin to be a second, on a busy machine too.
	ctx, cancel := context.WithTimeout(testutil.Context(t), 20*time.Second)
	defer cancel()
	err := h.interrupt(t, ctx, func() {})
	contains(t, err.Error(), "model", "MiB", "next attempt")
	h.succeeds(t)
}

// A `runsc create` that is killed names its sandbox and its gofer nowhere.
func TestAKilledRunscLeavesNoProcess(t *testing.T) {
	n := testutil.Node(t)
	ours, _, err := binaries.Dirs()
	if err != nil {
		t.Fatal(err)
	}
	gofer := filepath.Join(t.TempDir(), "runsc-gofer")
	if err := os.Symlink(filepath.Join(ours, binaries.BadWorker), gofer); err != nil {
		t.Fatal(err)
	}
	for _, victim := range []string{"sleep", binaries.Shim} {
		t.Run(victim, func(t *testing.T) {
			runsc, release := heldRunscThat(t, gofer+" gofer $id </dev/null >/dev/null 2>&1 &")
			defer release()
			n.ConfigureFirst(t, configured, fmt.Sprintf("binary_name = %q\n", runsc))
			pod := n.NewPod(t, node.PodSpec{Handler: configured})
			result := starts(t, pod)
			waitFor(t, "runsc and its gofer", func() bool {
				found, err := node.Find("sleep", held)
				return err == nil && len(found) > 0 && workerLeft("runsc-gofer") != nil
			})
			kill(t, victim)
			if err := <-result; err == nil {
				t.Error("the pod started")
			}
			gone(t)
			if err := workerLeft("runsc-gofer"); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestShimKilledWhileThePodRuns(t *testing.T) {
	n := testutil.Node(t)
	server := n.Web(t)
	pod := n.RunPod(t, node.PodSpec{
		Volumes:     []node.Volume{downloadVolume()},
		Annotations: asks(map[string]string{"model.url": server.File("/model", []byte("x"))}),
	})
	pod.Start(t, node.ContainerSpec{})
	kill(t, binaries.Shim)

	if err := pod.Remove(testutil.Context(t)); err != nil {
		t.Fatalf("remove the pod of a killed shim: %v", err)
	}
	// As kubelet does: a new sandbox for the same pod, with what is in its volume.
	pod.Run(t)
	container := pod.Start(t, node.ContainerSpec{})
	if got := container.Exec(t, "cat", downloads+"/"+server.Host()+"/model"); got != "x" {
		t.Errorf("the new sandbox reads %q", got)
	}
}

func TestContainerdKilledWhileItCreates(t *testing.T) {
	h := newHalfway(t, node.Sedna)
	h.interrupt(t, testutil.Context(t), func() {
		if err := h.node.Restart(testutil.Context(t), true); err != nil {
			t.Error(err)
		}
	})
	h.succeeds(t)
}
