// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/node"
)

// Whatever a cancel hits, be it the `start` command half done or a sandbox that
// is just running, nothing may stay once the pod is removed. It isn't so yet:
//   - containerd may take the bundle away while the shim process is coming up;
//     containerd's shim library then ends it and leaves its socket;
//   - containerd may lose interest between `start` and its first call, and then
//     the shim ends itself, but only after a minute;
//   - after a Start that was cut off containerd waits a minute for an end that
//     gVisor's service doesn't report.
func TestCreateCancelledAtAnyMomentLeavesNothing(t *testing.T) {
	if os.Getenv("SEDNA_TEST_CANCEL") == "" {
		t.Skip("fails now and then, see the comment; SEDNA_TEST_CANCEL=1 runs it")
	}
	n := testutil.Node(t)
	for moment := range 24 {
		pod := n.NewPod(t, node.PodSpec{})
		ctx, cancel := context.WithTimeout(testutil.Context(t), time.Duration(moment+1)*8*time.Millisecond)
		result := pod.Pod.Run(ctx)
		cancel()
		// kubelet too takes a pod's cgroup away only when nothing of it runs.
		if err := node.Poll(testutil.Context(t), 90*time.Second, func(context.Context) error { return noShimLeft() }); err != nil {
			t.Error(err)
		}
		if err := pod.Remove(testutil.Context(t)); err != nil {
			t.Errorf("remove the pod: %v", err)
		}
		if err := pod.Destroy(); err != nil {
			t.Errorf("destroy the pod: %v", err)
		}
		if err := n.CheckLeftovers(testutil.Context(t)); err != nil {
			t.Fatalf("after a cancel at %d ms (%v): %v", (moment+1)*8, result, err)
		}
	}
}
