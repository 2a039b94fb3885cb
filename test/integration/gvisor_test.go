// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"strings"
	"testing"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/node"
)

// The benchmarks compare with gVisor's own shim: it has to run here at all.
func TestGVisorsOwnShimRunsAPod(t *testing.T) {
	n := testutil.Node(t)
	pod := n.RunPod(t, node.PodSpec{Handler: node.Runsc})
	container := pod.Start(t, node.ContainerSpec{})
	if log := container.Exec(t, "dmesg"); !strings.Contains(log, "gVisor") {
		t.Errorf("the kernel's log doesn't speak of gVisor: %q", log)
	}
}
