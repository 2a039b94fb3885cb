// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/binaries"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/node"
)

// rounds is how many pods of each kind are weighed.
const rounds = 9

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
	{name: "theirs, grouping = true", handler: node.Runsc, program: "shim", grouping: true},
	{name: "theirs, default", handler: node.Runsc, program: "shim"},
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
	for range rounds {
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
	defer func() {
		if err := pod.Remove(testutil.Context(b)); err != nil {
			b.Error(err)
		}
		if err := pod.Destroy(); err != nil {
			b.Error(err)
		}
	}()
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
