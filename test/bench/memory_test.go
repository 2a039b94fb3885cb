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

// weighings is how many pods of each kind are weighed.
const weighings = 9

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

// BenchmarkShimMemory is the proportional set size of all shim processes of
// one pod: what the pod costs the node beside its sandbox.
func BenchmarkShimMemory(b *testing.B) {
	for _, containers := range []int{1, 3} {
		b.Run(fmt.Sprintf("%d containers", containers), func(b *testing.B) {
			for range b.N {
				compareMemory(b, containers)
			}
		})
	}
}

func compareMemory(b *testing.B, containers int) {
	n := testutil.Node(b)
	weights := make([][]float64, len(kinds))
	processes := make([]int, len(kinds))
	for range weighings {
		for i, k := range kinds {
			weight, count := weigh(b, n, k, containers)
			weights[i] = append(weights[i], weight)
			processes[i] = count
		}
	}
	ours := summarize(weights[0]).median
	for i, k := range kinds {
		s := summarize(weights[i])
		b.Logf("%-24s %v MiB in %d processes; ours is %.2f of it", k.name, s, processes[i], ours/s.median)
		if i > 0 {
			b.ReportMetric(ours/s.median, fmt.Sprintf("ours/theirs-%d-shims", processes[i]))
		}
	}
}

// discard removes a pod. gVisor's shim with grouping, at the pinned version,
// can't remove a container while others are left: it answers Shutdown with nil,
// which its ttrpc refuses to send ("marshal called with nil"), and containerd
// tries again for ever. It gets killed, and what it leaves gets swept.
func discard(b *testing.B, pod *node.Pod, k kind) {
	if k.grouping {
		killShims(b, k.program)
	}
	// containerd may still be busy with a shim that was killed.
	if err := node.Poll(testutil.Context(b), 20*time.Second, pod.Remove); err != nil {
		b.Error(err)
	}
	if err := pod.Destroy(); err != nil && !k.grouping {
		b.Error(err)
	}
	if k.grouping {
		_ = os.RemoveAll(node.ShimSockets)
		_ = os.RemoveAll(node.RunscState)
	}
}

func killShims(b *testing.B, program string) {
	shims, err := node.Find(program)
	if err != nil {
		b.Fatal(err)
	}
	for _, shim := range shims {
		if err := shim.Kill(); err != nil {
			b.Error(err)
		}
	}
}

// weigh runs a pod and returns the PSS of its shims in MiB, and their number.
func weigh(b *testing.B, n testutil.TestNode, k kind, containers int) (float64, int) {
	if err := os.MkdirAll(filepath.Dir(gvisorConfig), 0o755); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(gvisorConfig, fmt.Appendf(nil, "grouping = %t\n", k.grouping), 0o644); err != nil {
		b.Fatal(err)
	}
	pod, err := n.Node.NewPod(node.PodSpec{Handler: k.handler})
	if err != nil {
		b.Fatal(err)
	}
	defer discard(b, pod, k)
	if err := pod.Run(testutil.Context(b)); err != nil {
		b.Fatal(err)
	}
	for range containers {
		if _, err := pod.Start(testutil.Context(b), node.ContainerSpec{}); err != nil {
			b.Fatal(err)
		}
	}
	shims, err := node.Find(k.program)
	if err != nil {
		b.Fatal(err)
	}
	var total int64
	for _, process := range shims {
		pss, err := process.PSS()
		if err != nil {
			b.Fatal(err)
		}
		total += pss
	}
	return float64(total) / (1 << 20), len(shims)
}
