// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"testing"
	"time"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/node"
)

// Whatever a cancel hits, be it the `start` command half done or a sandbox that
// is just running, nothing may stay, and soon.
func TestCreateCancelledAtAnyMomentLeavesNothing(t *testing.T) {
	n := testutil.Node(t)
	for moment := range 24 {
		pod := n.NewPod(t, node.PodSpec{})
		ctx, cancel := context.WithTimeout(testutil.Context(t), time.Duration(moment+1)*10*time.Millisecond)
		result := pod.Pod.Run(ctx)
		cancel()
		// Without help. A process for which containerd has lost interest before
		// its first call ends when its bundle is gone.
		if result != nil {
			gone(t)
		}
		if err := pod.Remove(testutil.Context(t)); err != nil {
			t.Errorf("remove the pod: %v", err)
		}
		if err := pod.Destroy(); err != nil {
			t.Errorf("destroy the pod: %v", err)
		}
		if err := n.CheckLeftovers(testutil.Context(t)); err != nil {
			t.Fatalf("after a cancel at %d ms (%v): %v", (moment+1)*10, result, err)
		}
	}
}
