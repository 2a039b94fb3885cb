// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/binaries"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/node"
)

// withHostPaths is a pod with two folders of the node, and the first of them.
func withHostPaths(t *testing.T, n testutil.TestNode, more map[string]string) (spec node.PodSpec, dir string) {
	t.Helper()
	dir, config := hostFolder(t, true, "*")
	n.Configure(t, configured, config)
	put(t, dir+"/in/file", "in")
	put(t, dir+"/out/file", "out")
	asked := map[string]string{"in.url": dir + "/in/", "out.url": dir + "/out/", "out.mode": "writeonly"}
	for key, value := range more {
		asked[key] = value
	}
	return node.PodSpec{Handler: configured, Volumes: []node.Volume{downloadVolume()}, Annotations: asks(asked)}, dir
}

// mountsOfPods are the lines of mountinfo about host paths.
func mountsOfPods(t *testing.T) []string {
	t.Helper()
	all, err := os.ReadFile("/proc/thread-self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	return lines(string(all), " "+runFiles+"/")
}

// hostPathsGone waits until nothing of a pod's host paths is left, and checks
// that the folders themselves are as they were.
func hostPathsGone(t *testing.T, dir string) {
	t.Helper()
	err := node.Poll(testutil.Context(t), 10*time.Second, func(context.Context) error {
		if left := append(mountsOfPods(t), node.Entries(runFiles)...); len(left) > 0 {
			return errors.New("left: " + strings.Join(left, ", "))
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	for _, name := range []string{"in", "out"} {
		if got, err := os.ReadFile(dir + "/" + name + "/file"); err != nil || string(got) != name {
			t.Errorf("the node's own file holds %q: %v", got, err)
		}
	}
}

func TestHostPathsAreUnmountedWhenThePodIsRemoved(t *testing.T) {
	n := testutil.Node(t)
	spec, dir := withHostPaths(t, n, nil)
	pod := n.RunPod(t, spec)
	holds(t, pod.Start(t, node.ContainerSpec{}), "/hostpath"+dir+"/in/file", "in")
	if got := mountsOfPods(t); len(got) != 2 {
		t.Errorf("a running pod has not two mounts but %q", got)
	}
	for _, line := range mountsOfPods(t) {
		contains(t, line, "nosuid", "nodev")
	}
	if err := pod.Remove(testutil.Context(t)); err != nil {
		t.Fatal(err)
	}
	hostPathsGone(t, dir)
}

func TestHostPathsAreUnmountedWhenCreateFails(t *testing.T) {
	n := testutil.Node(t)
	server := n.Web(t)
	for name, more := range map[string]map[string]string{
		"in the download":   {"model.url": server.Status("/gone", 404)},
		"for the volume":    {"model.url": server.File("/model", nil), "volume": "absent"},
		"at a folder later": {"later.url": "/opt/nobody-allows/", "later.mode": "writeonly"},
	} {
		t.Run(name, func(t *testing.T) {
			spec, dir := withHostPaths(t, n, more)
			n.NewPod(t, spec).RunFails(t)
			hostPathsGone(t, dir)
		})
	}
	t.Run("at the second folder", func(t *testing.T) {
		spec, dir := withHostPaths(t, n, nil)
		if err := os.Rename(dir+"/out", dir+"/out-kept"); err != nil {
			t.Fatal(err)
		}
		n.NewPod(t, spec).RunFails(t)
		if err := os.Rename(dir+"/out-kept", dir+"/out"); err != nil {
			t.Fatal(err)
		}
		hostPathsGone(t, dir)
	})
}

func TestHostPathsAreUnmountedAfterAShimIsKilled(t *testing.T) {
	n := testutil.Node(t)
	spec, dir := withHostPaths(t, n, nil)
	pod := n.RunPod(t, spec)
	pod.Start(t, node.ContainerSpec{})
	kill(t, binaries.Shim)
	if err := pod.Remove(testutil.Context(t)); err != nil {
		t.Fatal(err)
	}
	hostPathsGone(t, dir)
	// As kubelet does: the same pod once more.
	pod.Run(t)
	holds(t, pod.Start(t, node.ContainerSpec{}), "/hostpath"+dir+"/in/file", "in")
}

func TestHostPathsAreUnmountedWhenCreateEndsInTheMiddle(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, n testutil.TestNode, cancel func()){
		"by a killed shim":     func(t *testing.T, _ testutil.TestNode, _ func()) { kill(t, binaries.Shim) },
		"by a killed worker":   func(t *testing.T, _ testutil.TestNode, _ func()) { kill(t, binaries.Worker) },
		"by a cancelled call":  func(_ *testing.T, _ testutil.TestNode, cancel func()) { cancel() },
		"by a containerd gone": func(t *testing.T, n testutil.TestNode, _ func()) { restart(t, n) },
	} {
		t.Run(name, func(t *testing.T) {
			n := testutil.Node(t)
			url, gate := n.Web(t).Gated("/model", make([]byte, 4<<20), 1<<20)
			spec, dir := withHostPaths(t, n, map[string]string{"model.url": url})
			h := halfway{TestPod: n.NewPod(t, spec), node: n, gate: gate}
			ctx, cancel := context.WithCancel(testutil.Context(t))
			defer cancel()
			h.interrupt(t, ctx, func() { end(t, n, cancel) })
			if err := h.Remove(testutil.Context(t)); err != nil {
				t.Fatal(err)
			}
			hostPathsGone(t, dir)
			gate.Open()
			h.Run(t)
			holds(t, h.Start(t, node.ContainerSpec{}), "/hostpath"+dir+"/out/file", "out")
		})
	}
}

func restart(t *testing.T, n testutil.TestNode) {
	if err := n.Restart(testutil.Context(t), true); err != nil {
		t.Error(err)
	}
}
