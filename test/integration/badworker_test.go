// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	taskapi "github.com/containerd/containerd/api/runtime/task/v2"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/binaries"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/node"
)

// badWorker has the handler `configured` use a worker that misbehaves so, and
// returns a pod that downloads with it.
func badWorker(t *testing.T, n testutil.TestNode, way string) testutil.TestPod {
	t.Helper()
	ours, _, err := binaries.Dirs()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), way)
	if err := os.Symlink(filepath.Join(ours, binaries.BadWorker), path); err != nil {
		t.Fatal(err)
	}
	n.Configure(t, configured, fmt.Sprintf("[storage]\nworker = %q\n", path))
	return n.NewPod(t, node.PodSpec{
		Handler: configured, Volumes: []node.Volume{downloadVolume()},
		Annotations: asks(map[string]string{"model.url": "http://" + node.Address + "/model"}),
	})
}

// workerLeft says whether one that misbehaves is still there.
func workerLeft(way string) error {
	found, err := node.Find(way)
	if err == nil && len(found) > 0 {
		err = fmt.Errorf("still running: %s", found[0].Command())
	}
	return err
}

func TestAWorkerThatTalksNonsenseFailsThePodAtOnce(t *testing.T) {
	n := testutil.Node(t)
	for way, says := range map[string]string{
		"garbled": "a line that is no event",
		"endless": "a line of more than",
		"mute":    "no report",
		"fertile": "no report",
	} {
		t.Run(way, func(t *testing.T) {
			pod := badWorker(t, n, way)
			began := time.Now()
			contains(t, pod.RunFails(t), says, way)
			if took := time.Since(began); took > 20*time.Second {
				t.Errorf("it took %s", took)
			}
			gone(t)
			for _, name := range []string{way, "deaf"} {
				if err := workerLeft(name); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// A worker that obeys nothing, and one that floods the shim: whatever ends the
// pod is answered at once and ends the worker too.
func TestAWorkerThatDoesNotListenIsEnded(t *testing.T) {
	n := testutil.Node(t)
	for _, way := range []string{"deaf", "chatty"} {
		t.Run(way, func(t *testing.T) {
			pod := badWorker(t, n, way)
			since := n.LogSize()
			result := make(chan error, 1)
			go func() { result <- pod.Pod.Run(testutil.Context(t)) }()
			err := node.Poll(testutil.Context(t), 30*time.Second, func(context.Context) error {
				if workerLeft(way) == nil {
					return os.ErrNotExist
				}
				_, err := oneShim()
				return err
			})
			if err != nil {
				t.Fatalf("no worker runs: %v", err)
			}
			process, err := oneShim()
			if err != nil {
				t.Fatal(err)
			}
			shim, id := dial(t, process)
			if way == "chatty" {
				waitFor(t, "the worker's flood", func() bool {
					return strings.Contains(n.Log(since, 2000), "no more of them are logged")
				})
			}
			asksAround(t, shim, id)
			if memory, err := process.PSS(); err != nil || memory > 64<<20 {
				t.Errorf("the shim has %d MiB of memory, %v", memory>>20, err)
			}
			began := time.Now()
			answers(t, "Kill", func(ctx context.Context) error {
				_, err := shim.Kill(ctx, &taskapi.KillRequest{ID: id, Signal: 9})
				return err
			})
			contains(t, fmt.Sprint(<-result), "killed")
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("Create took %s to end", took)
			}
			gone(t)
			if err := workerLeft(way); err != nil {
				t.Error(err)
			}
			if n := len(lines(n.Log(since, 100_000), "so it goes")); n > 1000 {
				t.Errorf("%d of the worker's lines are in the log", n)
			}
		})
	}
}

// waitFor waits until something is so.
func waitFor(t *testing.T, what string, is func() bool) {
	t.Helper()
	err := node.Poll(testutil.Context(t), time.Minute, func(context.Context) error {
		if !is() {
			return fmt.Errorf("no sign of %s", what)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
