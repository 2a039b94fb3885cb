// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/binaries"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/node"
)

// handlerOf is the runtime handler by which a pod was started: each has a
// config.toml of its own.
func handlerOf(t *testing.T, pod testutil.TestPod) string {
	t.Helper()
	path, err := os.ReadFile(filepath.Join(node.StateDir, "io.containerd.runtime.v2.task/k8s.io", pod.ID, "sedna-config-path"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(filepath.Base(string(path)), ".toml")
}

// kubeedge/kubeedge#4416, #7106: an edge node has no RuntimeClass objects, so
// nobody tells containerd a handler.
func TestAPodWithoutARuntimeClassGetsItsDataOnTheDefaultHandler(t *testing.T) {
	n := testutil.Node(t)
	server := n.Web(t)
	pod := n.RunPod(t, node.PodSpec{
		Handler:     node.NoHandler,
		Volumes:     []node.Volume{downloadVolume()},
		Annotations: asks(map[string]string{"model.url": server.File("/model", []byte("weights"))}),
	})
	if got := handlerOf(t, pod); got != node.Sedna {
		t.Errorf("the pod runs by handler %s", got)
	}
	container := pod.Start(t, node.ContainerSpec{})
	if got := container.Exec(t, "cat", downloads+"/"+server.Host()+"/model"); got != "weights" {
		t.Errorf("the container reads %q", got)
	}
}

func TestAPlainPodWithoutARuntimeClassIsAPlainGVisorPod(t *testing.T) {
	n := testutil.Node(t)
	pod := n.RunPod(t, node.PodSpec{Handler: node.NoHandler, Volumes: []node.Volume{{Name: "scratch"}}})
	container := pod.Start(t, node.ContainerSpec{
		Env:    map[string]string{"MODEL": "mine"},
		Mounts: []node.Mount{{Volume: "scratch", Path: "/scratch"}},
	})
	if log := container.Exec(t, "dmesg"); !strings.Contains(log, "gVisor") {
		t.Errorf("the kernel's log doesn't speak of gVisor: %q", log)
	}
	container.Exec(t, "write", "/scratch/file", "text")
	if got := strings.TrimSpace(container.Exec(t, "env", "MODEL")); got != "mine" {
		t.Errorf("MODEL is %q", got)
	}
	if strings.Contains(container.Exec(t, "mounts"), downloads) {
		t.Error("a pod that asks for nothing has a mount at " + downloads)
	}
}

// The same reports: containerd's older way to choose a handler without a
// RuntimeClass, containerd internal/cri/config/config.go:GetSandboxRuntime.
func TestAPodCalledUntrustedRunsByTheHandlerOfThatName(t *testing.T) {
	n := testutil.Node(t)
	server := n.Web(t)
	annotations := asks(map[string]string{"model.url": server.File("/model", []byte("weights"))})
	annotations["io.kubernetes.cri.untrusted-workload"] = "true"
	pod := n.RunPod(t, node.PodSpec{
		Handler: node.NoHandler, Volumes: []node.Volume{downloadVolume()}, Annotations: annotations,
	})
	if got := handlerOf(t, pod); got != untrusted {
		t.Errorf("the pod runs by handler %s", got)
	}
	container := pod.Start(t, node.ContainerSpec{})
	if got := container.Exec(t, "cat", downloads+"/"+server.Host()+"/model"); got != "weights" {
		t.Errorf("the container reads %q", got)
	}
}

// deploy/ is what users copy: containerd must read it as it is.
func TestTheHandlerOfTheDeployFolderBringsAPodItsData(t *testing.T) {
	n := testutil.Node(t)
	server := n.Web(t)
	pod := n.RunPod(t, node.PodSpec{
		Handler:     node.Deployed,
		Volumes:     []node.Volume{downloadVolume()},
		Annotations: asks(map[string]string{"model.url": server.File("/model", []byte("weights")), "model.env": "MODEL"}),
	})
	if got := handlerOf(t, pod); got != node.Deployed {
		t.Errorf("the shim reads another config.toml than its handler's options name: %s", got)
	}
	where := strings.TrimSpace(pod.Start(t, node.ContainerSpec{}).Exec(t, "env", "MODEL"))
	if want := downloads + "/" + server.Host() + "/model"; where != want {
		t.Errorf("MODEL is %q, not %q", where, want)
	}
}

// google/gvisor#12781: the shim was installed, and no sandbox started.
func TestAShimIsFoundByTheRuntimePathToo(t *testing.T) {
	n := testutil.Node(t)
	pod := n.RunPod(t, node.PodSpec{Handler: byPath})
	if got := handlerOf(t, pod); got != byPath {
		t.Errorf("the pod runs by handler %s", got)
	}
}

// The same report: which program was looked for is in the error.
func TestAMissingRunscIsNamed(t *testing.T) {
	n := testutil.Node(t)
	message := n.NewPod(t, node.PodSpec{Handler: noRunsc}).RunFails(t)
	t.Log(message)
	contains(t, message, "runsc-elsewhere", "PATH", "/usr/sbin:/usr/bin", "binary_name")
}

// containerd can ask a shim for sandboxes by an API of their own, which gVisor
// doesn't have. Until 2.0 it has no such setting.
func TestAHandlerThatAsksForTheSandboxAPIIsToldWhatToChange(t *testing.T) {
	n := testutil.Node(t)
	_, version, err := binaries.Containerd()
	if err != nil {
		t.Fatal(err)
	}
	if version == "1.7" {
		t.Skip("containerd 1.7 has no sandboxer in a handler's table")
	}
	message := n.NewPod(t, node.PodSpec{Handler: sandboxAPI}).RunFails(t)
	t.Log(message)
	contains(t, message, `sandboxer = "shim"`, "take")
}
