// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/node"
)

// google/gvisor#3280, DataDog/datadog-agent#44084: numbers were missing or zero
// through a wrapper. Those of a pod of ours are there where gVisor's shim has them.
func TestStatsAreThoseOfGVisorsShim(t *testing.T) {
	n := testutil.Node(t)
	stats := map[string]*runtimeapi.ContainerStats{}
	for _, handler := range []string{node.Sedna, node.Runsc} {
		pod := n.RunPod(t, node.PodSpec{Handler: handler})
		container := pod.Start(t, node.ContainerSpec{})
		reply, err := n.CRI.ContainerStats(testutil.Context(t), &runtimeapi.ContainerStatsRequest{ContainerId: container.ID})
		if err != nil {
			t.Fatalf("%s: %v", handler, err)
		}
		stats[handler] = reply.Stats
	}
	ours, theirs := stats[node.Sedna], stats[node.Runsc]
	for name, has := range map[string]func(*runtimeapi.ContainerStats) bool{
		"cpu":         func(s *runtimeapi.ContainerStats) bool { return s.GetCpu().GetUsageCoreNanoSeconds().GetValue() > 0 },
		"memory":      func(s *runtimeapi.ContainerStats) bool { return s.GetMemory().GetUsageBytes().GetValue() > 0 },
		"working set": func(s *runtimeapi.ContainerStats) bool { return s.GetMemory().GetWorkingSetBytes().GetValue() > 0 },
	} {
		t.Logf("%s: ours %t, theirs %t", name, has(ours), has(theirs))
		if has(theirs) && !has(ours) {
			t.Errorf("gVisor's shim tells the container's %s, ours doesn't: %v", name, ours)
		}
	}
	if ours.GetCpu() == nil || ours.GetMemory() == nil {
		t.Errorf("there are no figures: %v", ours)
	}
}
