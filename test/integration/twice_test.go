// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	taskapi "github.com/containerd/containerd/api/runtime/task/v2"
	"github.com/containerd/errdefs"
	"github.com/containerd/errdefs/pkg/errgrpc"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/binaries"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/node"
)

// Who cleans up doesn't know how far somebody else has got.
func TestKillAndDeleteMayComeAgain(t *testing.T) {
	n := testutil.Node(t)
	pod := n.RunPod(t, node.PodSpec{})
	container := pod.Start(t, node.ContainerSpec{})
	shim, _ := dialShim(t)
	kill := func(ctx context.Context) error {
		_, err := shim.Kill(ctx, &taskapi.KillRequest{ID: container.ID, Signal: 9, All: true})
		return err
	}
	answers(t, "Kill", kill)
	answers(t, "Kill again", kill)
	container.Wait(t)
	answers(t, "Kill of what has ended", kill)
	remove := func(ctx context.Context) error {
		_, err := shim.Delete(ctx, &taskapi.DeleteRequest{ID: container.ID})
		return err
	}
	answers(t, "Delete", remove)
	answers(t, "Delete again", func(ctx context.Context) error {
		err := remove(ctx)
		if !errdefs.IsNotFound(errgrpc.ToNative(err)) {
			return fmt.Errorf("a container that is gone is deleted: %w", err)
		}
		return nil
	})
	answers(t, "Kill of what is gone", kill)
}

// A container ends while containerd is away, say for an upgrade: the shim keeps
// its other containers.
func TestAContainerThatEndsWithoutContainerdEndsAlone(t *testing.T) {
	n := testutil.Node(t)
	pod := n.RunPod(t, node.PodSpec{Volumes: []node.Volume{{Name: "data"}}})
	stays := pod.Start(t, node.ContainerSpec{})
	ends := pod.Start(t, node.ContainerSpec{Args: []string{"wait", "/data/go"}, Mounts: []node.Mount{{Volume: "data", Path: "/data"}}})
	shim, err := oneShim()
	if err != nil {
		t.Fatal(err)
	}
	kill(t, "containerd")
	put(t, filepath.Join(pod.VolumeDir("data"), "go"), "")
	waitFor(t, "the container's end", func() bool {
		waiting, err := node.Find("runsc", "wait", ends.ID)
		return err == nil && len(waiting) == 0
	})
	restart(t, n)
	// With 255, whatever its shim: containerd cleans up each task without processes
	// that it finds when it starts (core/runtime/v2/shim_load.go:loadShims).
	ends.Wait(t)
	if now, err := oneShim(); err != nil || now.PID != shim.PID {
		t.Errorf("the shim is process %d, was %d: %v", now.PID, shim.PID, err)
	}
	if stays.Exec(t, "env", "PATH") == "" {
		t.Error("the other container doesn't answer")
	}
}

func TestAShimIsKilledForMemoryBeforeContainerd(t *testing.T) {
	n := testutil.Node(t)
	n.RunPod(t, node.PodSpec{})
	containerd := score(t, "containerd")
	if got := score(t, binaries.Shim); got != containerd+1 {
		t.Errorf("the shim's score is %d, containerd's %d", got, containerd)
	}
}

// score is the oom_score_adj of the one process of a program.
func score(t *testing.T, program string) int {
	t.Helper()
	var text []byte
	err := node.Poll(testutil.Context(t), 10*time.Second, func(context.Context) error {
		found, err := node.Find(program)
		if err == nil && len(found) != 1 {
			err = fmt.Errorf("%d processes of %s", len(found), program)
		}
		if err != nil {
			return err
		}
		text, err = os.ReadFile(filepath.Join("/proc", strconv.Itoa(found[0].PID), "oom_score_adj"))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return n
}
