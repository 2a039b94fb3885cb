// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"path"
	"slices"
	"strings"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/image"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/node"
)

// paths sets the lists of a container's masked and read-only paths.
func paths(masked, readOnly []string) func(*runtimeapi.ContainerConfig) {
	return func(c *runtimeapi.ContainerConfig) {
		c.Linux.SecurityContext.MaskedPaths, c.Linux.SecurityContext.ReadonlyPaths = masked, readOnly
	}
}

func TestMaskedPathsAreEmptyAndReadOnlyOnesStayAsTheyAre(t *testing.T) {
	pod := testutil.Node(t).RunPod(t, node.PodSpec{})
	container := pod.Start(t, node.ContainerSpec{Tweak: paths([]string{"/etc", "/absent"}, []string{"/tmp"})})

	container.ExecFails(t, "write", "/tmp/x", "x")
	container.ExecFails(t, "write", "/etc/x", "x")
	if _, ok := container.Tree(t, "/etc")[path.Base(image.File)]; ok {
		t.Error("the masked folder holds the image's files")
	}
	container.Exec(t, "write", "/elsewhere", "x")
}

func TestMaskedFileIsEmptyAndStaysSo(t *testing.T) {
	pod := testutil.Node(t).RunPod(t, node.PodSpec{})
	plain := pod.Start(t, node.ContainerSpec{})
	masked := pod.Start(t, node.ContainerSpec{Tweak: paths([]string{image.File}, nil)})
	if plain.Exec(t, "cat", image.File) == "" {
		t.Error("the file is empty without a mask")
	}
	if got := masked.Exec(t, "cat", image.File); got != "" {
		t.Errorf("the masked file says %q", got)
	}
	masked.ExecFails(t, "write", image.File, "x")
	masked.ExecFails(t, "remove", image.File)
}

func TestPathsStayWritableWhenTheNodeWantsThat(t *testing.T) {
	n := testutil.Node(t)
	n.Configure(t, configured, "protect_paths = false\n")
	pod := n.RunPod(t, node.PodSpec{Handler: configured})
	container := pod.Start(t, node.ContainerSpec{Tweak: paths(nil, []string{"/tmp"})})
	container.Exec(t, "write", "/tmp/x", "x")
}

// Kubernetes sends these lists for every container that doesn't ask for an
// unmasked /proc: kubernetes pkg/securitycontext/util.go.
func TestKubernetesOwnPathsChangeNothing(t *testing.T) {
	pod := testutil.Node(t).RunPod(t, node.PodSpec{})
	plain := pod.Start(t, node.ContainerSpec{})
	listed := pod.Start(t, node.ContainerSpec{Tweak: paths(
		[]string{"/proc/asound", "/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/scsi", "/sys/firmware", "/sys/devices/virtual/powercap"},
		[]string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"},
	)})
	if a, b := mountPoints(plain.Exec(t, "mounts")), mountPoints(listed.Exec(t, "mounts")); !slices.Equal(a, b) {
		t.Errorf("the mounts differ:\n%s\n%s", a, b)
	}
}

// mountPoints are the places and kinds of what /proc/mounts lists.
func mountPoints(text string) []string {
	var all []string
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) > 2 {
			all = append(all, fields[1]+" "+fields[2])
		}
	}
	return all
}
