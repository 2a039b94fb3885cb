// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/binaries"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/node"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/web"
)

// After a reboot of the node, say, kubelet asks for a new sandbox of the same
// pod, and the network may be gone.
func TestNewSandboxOfThePodStartsWithoutTheNetwork(t *testing.T) {
	n := testutil.Node(t)
	server := n.Web(t)
	content := web.Bytes(1 << 20)
	pod := n.RunPod(t, node.PodSpec{
		Volumes:     []node.Volume{downloadVolume()},
		Annotations: asks(map[string]string{"model.url": server.File("/model", content)}),
	})
	asked := len(server.Requests("/model"))
	if err := pod.Remove(testutil.Context(t)); err != nil {
		t.Fatal(err)
	}
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	pod.Run(t)
	container := pod.Start(t, node.ContainerSpec{})
	sameFiles(t, container.Tree(t, downloads+"/"+server.Host()), map[string][]byte{"model": content})
	if now := len(server.Requests("/model")); now != asked {
		t.Errorf("the second sandbox sent %d requests", now-asked)
	}
}

func TestNewAttemptGoesOnWhereTheLastOneStopped(t *testing.T) {
	const reached = 96 << 20
	h := newHalfwayOf(t, node.Sedna, 128<<20, reached)
	h.interrupt(t, testutil.Context(t), func() { kill(t, binaries.Worker) })
	h.succeeds(t)
	// What was on its way when the worker died, or not yet safe on the disk, is
	// sent again: on a busy machine a good part. How much exactly is for the tests
	// of package storage.
	if again := h.gate.Sent() - len(h.content); again >= reached {
		t.Errorf("%d of %d bytes were sent twice", again, len(h.content))
	}
}
