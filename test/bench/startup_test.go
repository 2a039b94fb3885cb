// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"testing"
	"time"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/node"
)

// pairs is how many times each side runs.
const pairs = 30

// BenchmarkPlainPodStart is RunPodSandbox and one container of a pod that asks
// for nothing, ours against gVisor's own shim.
func BenchmarkPlainPodStart(b *testing.B) {
	n := testutil.Node(b)
	for range b.N {
		var ours, theirs, ratios []float64
		for pair := range pairs + 1 {
			o, t := startPair(b, n, pair%2 == 0)
			if pair == 0 {
				continue // warms up
			}
			ours, theirs, ratios = append(ours, o), append(theirs, t), append(ratios, o/t)
		}
		b.Logf("ours   %v s", summarize(ours))
		b.Logf("theirs %v s", summarize(theirs))
		b.Logf("ratio  %v, %d pairs", summarize(ratios), pairs)
		b.ReportMetric(summarize(ratios).median, "ours/theirs")
	}
}

// startPair starts a pod of each kind, in either order.
func startPair(b *testing.B, n testutil.TestNode, oursFirst bool) (ours, theirs float64) {
	if oursFirst {
		ours = startOne(b, n, node.Sedna)
		return ours, startOne(b, n, node.Runsc)
	}
	theirs = startOne(b, n, node.Runsc)
	return startOne(b, n, node.Sedna), theirs
}

// startOne is the time that a pod takes, in seconds. Its removal isn't timed.
func startOne(b *testing.B, n testutil.TestNode, handler string) float64 {
	pod, err := n.Node.NewPod(node.PodSpec{Handler: handler})
	if err != nil {
		b.Fatal(err)
	}
	ctx := testutil.Context(b)
	begin := time.Now()
	err = pod.Run(ctx)
	if err == nil {
		_, err = pod.Start(ctx, node.ContainerSpec{})
	}
	took := time.Since(begin).Seconds()
	if err != nil {
		b.Error(err)
	}
	if err := pod.Remove(ctx); err != nil {
		b.Error(err)
	}
	if err := pod.Destroy(); err != nil {
		b.Error(err)
	}
	return took
}
