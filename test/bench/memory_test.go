// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/binaries"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/node"
)

// gvisorConfig is where gVisor's shim looks for its grouping, whatever
// ConfigPath says: gvisor pkg/shim/v1/runsc/options.go:GetRuntimeOptions.
const gvisorConfig = "/run/containerd/runsc/config.toml"

// kind is a shim and the way it is set up.
type kind struct {
	name, handler, program string
	grouping               bool
}

var kinds = []kind{
	{name: "ours", handler: node.Sedna, program: binaries.Shim},
	{name: "theirs, grouping = true", handler: node.Runsc, program: binaries.GVisor, grouping: true},
	{name: "theirs, default", handler: node.Runsc, program: binaries.GVisor},
}

// load is what runs on the node while its shims are weighed.
type load struct{ pods, containers, rounds int }

// BenchmarkShimMemory is the proportional set size of the shims of one pod: what
// the pod costs the node beside its sandbox. The program's code is shared by all
// shims of the node, so a pod that is alone pays for all of it.
func BenchmarkShimMemory(b *testing.B) {
	for _, l := range []load{{pods: 1, containers: 1, rounds: 9}, {pods: 1, containers: 3, rounds: 9}, {pods: 8, containers: 3, rounds: 3}} {
		b.Run(fmt.Sprintf("%d pods of %d containers", l.pods, l.containers), func(b *testing.B) {
			for range b.N {
				compareMemory(b, l)
			}
		})
	}
}

func compareMemory(b *testing.B, l load) {
	n := testutil.Node(b)
	weights := make([][]float64, len(kinds))
	processes := make([]int, len(kinds))
	for range l.rounds {
		for i, k := range kinds {
			weight, count := weigh(b, n, k, l)
			weights[i] = append(weights[i], weight/float64(l.pods))
			processes[i] = count / l.pods
		}
	}
	ours := summarize(weights[0]).median
	for i, k := range kinds {
		s := summarize(weights[i])
		b.Logf("%-24s %v MiB a pod, %d shims; ours is %.2f of it", k.name, s, processes[i], ours/s.median)
		if i > 0 {
			b.ReportMetric(ours/s.median, fmt.Sprintf("ours/theirs-%d-shims", processes[i]))
		}
	}
}

// weigh runs pods and returns the PSS of all shims in MiB, and their number.
func weigh(b *testing.B, n testutil.TestNode, k kind, l load) (mib float64, shims int) {
	if err := os.MkdirAll(filepath.Dir(gvisorConfig), 0o755); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(gvisorConfig, fmt.Appendf(nil, "grouping = %t\n", k.grouping), 0o644); err != nil {
		b.Fatal(err)
	}
	var pods []*node.Pod
	defer func() { discard(b, k, pods) }()
	for range l.pods {
		pod, err := n.Node.NewPod(node.PodSpec{Handler: k.handler})
		if err != nil {
			b.Fatal(err)
		}
		pods = append(pods, pod)
		if err := pod.Run(testutil.Context(b)); err != nil {
			b.Fatal(err)
		}
		for range l.containers {
			if _, err := pod.Start(testutil.Context(b), node.ContainerSpec{}); err != nil {
				b.Fatal(err)
			}
		}
	}
	var total int64
	found := find(b, k.program)
	for _, process := range found {
		pss, err := process.PSS()
		if err != nil {
			b.Fatal(err)
		}
		total += pss
	}
	return float64(total) / (1 << 20), len(found)
}

func find(b *testing.B, program string) []node.Process {
	found, err := node.Find(program)
	if err != nil {
		b.Fatal(err)
	}
	return found
}

// discard removes pods. gVisor's shim with grouping, at the pinned version,
// can't remove a container while others are left: it answers Shutdown with nil,
// which its ttrpc refuses to send ("marshal called with nil"), and containerd
// tries again for ever. It gets killed, and what it leaves gets swept.
func discard(b *testing.B, k kind, pods []*node.Pod) {
	if k.grouping {
		for _, shim := range find(b, k.program) {
			if err := shim.Kill(); err != nil {
				b.Error(err)
			}
		}
	}
	for _, pod := range pods {
		// containerd may still be busy with a shim that was killed.
		if err := node.Poll(testutil.Context(b), 20*time.Second, pod.Remove); err != nil {
			b.Error(err)
		}
		if err := pod.Destroy(); err != nil && !k.grouping {
			b.Error(err)
		}
	}
	if k.grouping {
		_ = os.RemoveAll(node.ShimSockets)
		_ = os.RemoveAll(node.RunscState)
	}
}
