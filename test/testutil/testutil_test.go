// SPDX-License-Identifier: Apache-2.0

package testutil

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil/isolate"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/node"
)

func TestMain(m *testing.M) { Main(m, node.Options{}) }

// A check for leftovers that sees nothing is worse than none.
func TestEveryKindOfLeftoverIsSeen(t *testing.T) {
	n := Node(t)
	cases := map[string]struct {
		leave func(t *testing.T) (undo func())
		named string
	}{
		"process": {named: "process ", leave: func(t *testing.T) func() {
			cmd := exec.Command("sleep", "600")
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			return func() {
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
			}
		}},
		"mount": {named: "mount ", leave: func(t *testing.T) func() {
			dir := t.TempDir()
			if err := unix.Mount("tmpfs", dir, "tmpfs", 0, ""); err != nil {
				t.Fatal(err)
			}
			return func() { _ = unix.Unmount(dir, 0) }
		}},
		"socket":            {named: "shim socket", leave: leaveFile(filepath.Join(node.ShimSockets, "left"))},
		"network namespace": {named: "network namespace", leave: leaveFile("/run/netns/left")},
		"runsc state":       {named: "runsc state", leave: leaveFile(filepath.Join(node.RunscState, "left"))},
		"pod volume":        {named: "pod volumes", leave: leaveFile(filepath.Join(node.KubeletRoot, "pods", "left"))},
		"run file":          {named: "run files", leave: leaveFile("/run/sedna/pods/left")},
		"cgroup": {named: "cgroup ", leave: func(t *testing.T) func() {
			dir := filepath.Join(isolate.Hierarchies()[0], isolate.Cgroup(), "left")
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			return func() { _ = os.Remove(dir) }
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			undo := c.leave(t)
			defer undo()
			err := n.Leftovers()
			if err == nil || !strings.Contains(err.Error(), c.named) {
				t.Errorf("the check says: %v", err)
			}
		})
	}
	if err := n.Leftovers(); err != nil {
		t.Errorf("after all is undone: %v", err)
	}
}

func leaveFile(file string) func(t *testing.T) func() {
	return func(t *testing.T) func() {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		return func() { _ = os.Remove(file) }
	}
}

func TestProcessesOfTheMachineAreNotInSight(t *testing.T) {
	Node(t)
	all, err := node.Processes()
	if err != nil {
		t.Fatal(err)
	}
	// init, this test, containerd.
	if len(all) != 3 {
		t.Errorf("there are %d processes: %v", len(all), all)
	}
}
