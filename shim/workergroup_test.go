// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"

	"github.com/sedna-io/containerd-shim-sedna/internal/config"
	"github.com/sedna-io/containerd-shim-sedna/shim/bundle"
	"github.com/sedna-io/containerd-shim-sedna/storage/worker"
)

func TestTheErrorNamesWhoGaveAWorkerTooLittle(t *testing.T) {
	for _, tt := range []struct {
		limit int64
		pods  bool
		want  string
	}{
		{1 << 30, false, "more than [storage.limits] memory = 1GiB"},
		{256 << 20, true, "the pod's own limit of 256 MiB"},
		{0, false, "the node has no more"},
	} {
		err := starvedError(tt.limit, tt.pods, 1<<30)
		if !errdefs.IsResourceExhausted(err) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("got %v; want it to say %q", err, tt.want)
		}
	}
}

// bare is a pod's preparation on a node with nothing of the kernel's at root.
func bare(t *testing.T, root string) *sandbox {
	t.Helper()
	previous := cgroupRoot
	cgroupRoot = root
	t.Cleanup(func() { cgroupRoot = previous })
	return &sandbox{
		cfg: config.Default(), bundle: &bundle.Bundle{Dir: t.TempDir()}, log: log.L,
		pod: bundle.Pod{SandboxID: "box", CgroupsPath: "/pod/box"},
	}
}

func TestANodeWithoutControlGroupsStillDownloads(t *testing.T) {
	p := bare(t, t.TempDir())
	g, err := p.groupFor(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := g.take(worker.Process{PID: os.Getpid()}); err != nil {
		t.Error(err)
	}
	failed := errors.New("failed")
	if err := g.explain(failed); !errors.Is(err, failed) {
		t.Errorf("got %v", err)
	}
	if err := g.remove(); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(p.bundle.Dir); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}

func TestDeleteRemovesTheGroupOfAWorkerThatNeverRan(t *testing.T) {
	root := t.TempDir()
	group := filepath.Join(root, "memory", "pod", "sedna-storage-box")
	if err := os.MkdirAll(group, 0o755); err != nil {
		t.Fatal(err)
	}
	p := bare(t, root)
	if _, err := p.groupFor(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	// The shim dies here.
	if err := removePod(p.bundle.Dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(group); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the group: %v", err)
	}
	if left, _ := os.ReadDir(p.bundle.Dir); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}
