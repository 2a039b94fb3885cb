// SPDX-License-Identifier: Apache-2.0

package testutil

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil/node"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/report"
)

// TestPod is a pod that is removed when the test ends.
type TestPod struct{ *node.Pod }

// TestContainer is a container of such a pod.
type TestContainer struct{ *node.Container }

// NewPod prepares a pod without running it.
func (n TestNode) NewPod(t testing.TB, spec node.PodSpec) TestPod {
	t.Helper()
	pod, err := n.Node.NewPod(spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { discard(t, pod) })
	return TestPod{pod}
}

func discard(t testing.TB, pod *node.Pod) {
	if err := pod.Remove(Context(t)); err != nil {
		t.Errorf("remove pod: %v", err)
	}
	if err := pod.Destroy(); err != nil {
		t.Errorf("destroy pod: %v", err)
	}
}

// RunPod runs a pod's sandbox.
func (n TestNode) RunPod(t testing.TB, spec node.PodSpec) TestPod {
	t.Helper()
	pod := n.NewPod(t, spec)
	pod.Run(t)
	return pod
}

// Run starts the sandbox.
func (p TestPod) Run(t testing.TB) {
	t.Helper()
	if err := p.Pod.Run(Context(t)); err != nil {
		t.Fatalf("run pod: %v", err)
	}
}

// RunFails starts a sandbox that must not start, and returns the error's text.
func (p TestPod) RunFails(t testing.TB) string {
	t.Helper()
	err := p.Pod.Run(Context(t))
	if err == nil {
		t.Fatal("the pod started")
	}
	return err.Error()
}

// Start creates and starts a container.
func (p TestPod) Start(t testing.TB, spec node.ContainerSpec) TestContainer {
	t.Helper()
	c, err := p.Pod.Start(Context(t), spec)
	if err != nil {
		t.Fatalf("start container: %v", err)
	}
	return TestContainer{c}
}

// StartFails starts a container that must not start, and returns the error's
// text.
func (p TestPod) StartFails(t testing.TB, spec node.ContainerSpec) string {
	t.Helper()
	_, err := p.Pod.Start(Context(t), spec)
	if err == nil {
		t.Fatal("the container started")
	}
	return err.Error()
}

// Exec returns what a command of the workload prints in the container.
func (c TestContainer) Exec(t testing.TB, args ...string) string {
	t.Helper()
	out, err := c.Container.Exec(Context(t), args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// ExecFails runs a command that must fail inside the container, and returns
// what it said on standard error.
func (c TestContainer) ExecFails(t testing.TB, args ...string) string {
	t.Helper()
	out, err := c.Container.Exec(Context(t), args...)
	var exit *node.ExitError
	if !errors.As(err, &exit) {
		t.Fatalf("%v should have failed: output %q, error %v", args, out, err)
	}
	return exit.Stderr
}

// Stop stops and removes the container.
func (c TestContainer) Stop(t testing.TB) {
	t.Helper()
	if err := c.Container.Stop(Context(t)); err != nil {
		t.Fatal(err)
	}
}

// Wait waits until the container has ended and returns its exit code.
func (c TestContainer) Wait(t testing.TB) int32 {
	t.Helper()
	code, err := c.Container.Wait(Context(t), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return code
}

// Output is what the container itself has printed so far.
func (c TestContainer) Output(t testing.TB) string {
	t.Helper()
	out, err := c.Container.Output()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Tree returns the files below a folder as the container sees them, by their
// path relative to it.
func (c TestContainer) Tree(t testing.TB, dir string) map[string]report.File {
	t.Helper()
	files := map[string]report.File{}
	lines := bufio.NewScanner(strings.NewReader(c.Exec(t, "tree", dir)))
	for lines.Scan() {
		var file report.File
		if err := json.Unmarshal(lines.Bytes(), &file); err != nil {
			t.Fatalf("read tree: %v", err)
		}
		files[file.Path] = file
	}
	return files
}

// Stat returns what stat and statfs say in the container.
func (c TestContainer) Stat(t testing.TB, path string) report.Stat {
	t.Helper()
	var stat report.Stat
	decode(t, c.Exec(t, "stat", path), &stat)
	return stat
}

// Mount returns type and options of the file system mounted at path, as the
// container's /proc/mounts has them.
func (c TestContainer) Mount(t testing.TB, path string) (fsType, options string) {
	t.Helper()
	for line := range strings.Lines(c.Exec(t, "mounts")) {
		if fields := strings.Fields(line); len(fields) > 3 && fields[1] == path {
			fsType, options = fields[2], fields[3]
		}
	}
	if fsType == "" {
		t.Fatalf("nothing is mounted at %s", path)
	}
	return fsType, options
}

// Memory is how much memory the container believes the machine to have.
func (c TestContainer) Memory(t testing.TB) int64 {
	t.Helper()
	var kib int64
	if _, err := fmt.Sscanf(c.Exec(t, "cat", "/proc/meminfo"), "MemTotal: %d kB", &kib); err != nil {
		t.Fatalf("read the container's memory: %v", err)
	}
	return kib << 10
}

// WaitOutput waits until the container has printed something that begins so.
func (c TestContainer) WaitOutput(t testing.TB, prefix string) {
	t.Helper()
	err := node.Poll(Context(t), time.Minute, func(context.Context) error {
		out, err := c.Container.Output()
		if err == nil && !strings.HasPrefix(out, prefix) {
			err = fmt.Errorf("the container has printed %q", out)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Kernel returns what uname says in the container.
func (c TestContainer) Kernel(t testing.TB) report.Kernel {
	t.Helper()
	var kernel report.Kernel
	decode(t, c.Exec(t, "uname"), &kernel)
	return kernel
}

func decode(t testing.TB, text string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("read the workload's answer %q: %v", text, err)
	}
}
