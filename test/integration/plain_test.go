// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"strings"
	"testing"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/binaries"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/node"
)

func TestPlainPodRunsInGVisor(t *testing.T) {
	n := testutil.Node(t)
	pod := n.RunPod(t, node.PodSpec{})
	container := pod.Start(t, node.ContainerSpec{})

	if log := container.Exec(t, "dmesg"); !strings.Contains(log, "gVisor") {
		t.Errorf("the kernel's log doesn't speak of gVisor: %q", log)
	}
	if host := container.Kernel(t).Hostname; host != pod.Spec.Name {
		t.Errorf("host name is %q, not the pod's", host)
	}
}

func TestPlainPodsContainersShareOneShimAndDevShm(t *testing.T) {
	n := testutil.Node(t)
	pod := n.RunPod(t, node.PodSpec{})
	one := pod.Start(t, node.ContainerSpec{})
	two := pod.Start(t, node.ContainerSpec{})

	shims, err := node.Find(binaries.Shim)
	if err != nil {
		t.Fatal(err)
	}
	if len(shims) != 1 {
		t.Errorf("the pod has %d shim processes: %v", len(shims), shims)
	}
	one.Exec(t, "write", "/dev/shm/mail", "from one")
	if got := two.Exec(t, "cat", "/dev/shm/mail"); got != "from one" {
		t.Errorf("the second container reads %q in /dev/shm", got)
	}
}

func TestDevShmIsNotSharedBetweenPods(t *testing.T) {
	n := testutil.Node(t)
	one := n.RunPod(t, node.PodSpec{}).Start(t, node.ContainerSpec{})
	two := n.RunPod(t, node.PodSpec{}).Start(t, node.ContainerSpec{})

	one.Exec(t, "write", "/dev/shm/mail", "from one")
	two.ExecFails(t, "cat", "/dev/shm/mail")
}

func TestPlainPodKeepsItsOwnEnvironmentAndExitCode(t *testing.T) {
	n := testutil.Node(t)
	pod := n.RunPod(t, node.PodSpec{})
	speaker := pod.Start(t, node.ContainerSpec{Args: []string{"env"}, Env: map[string]string{"MODEL": "mine"}})
	if code := speaker.Wait(t); code != 0 {
		t.Errorf("env exits with %d", code)
	}
	if out := speaker.Output(t); !strings.Contains(out, "MODEL=mine\n") {
		t.Errorf("the container's log is %q", out)
	}
	failer := pod.Start(t, node.ContainerSpec{Args: []string{"exit", "7"}})
	if code := failer.Wait(t); code != 7 {
		t.Errorf("exit code is %d, not 7", code)
	}
}

func TestPodReachesTheNodeThroughItsOwnNetwork(t *testing.T) {
	n := testutil.Node(t)
	url := n.Web(t).File("/hello", []byte("hello"))
	container := n.RunPod(t, node.PodSpec{}).Start(t, node.ContainerSpec{})

	if got := container.Exec(t, "get", url); got != "hello" {
		t.Errorf("got %q", got)
	}
}
