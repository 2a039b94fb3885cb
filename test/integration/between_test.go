// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"net/netip"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/node"
)

// What test/kind/pods.yaml does in a node of kind: the server is a pod too, so
// the download crosses two pods' networks, and its name is the cluster's.
func TestAPodDownloadsFromAnotherPodByAClusterName(t *testing.T) {
	n := testutil.Node(t)
	server := n.RunPod(t, node.PodSpec{})
	server.Start(t, node.ContainerSpec{Args: []string{"serve", ":80", "weights"}})
	status, err := n.CRI.PodSandboxStatus(testutil.Context(t), &runtimeapi.PodSandboxStatusRequest{PodSandboxId: server.ID})
	if err != nil {
		t.Fatal(err)
	}
	n.DNS.Set("models.default.svc.cluster.local", netip.MustParseAddr(status.Status.Network.Ip))

	pod := n.RunPod(t, node.PodSpec{
		Volumes:     []node.Volume{downloadVolume()},
		Annotations: asks(map[string]string{"model.url": "http://models.default.svc.cluster.local/v1/model"}),
	})
	container := pod.Start(t, node.ContainerSpec{Mounts: []node.Mount{{Volume: volume, Path: downloads}}})
	if got := container.Exec(t, "cat", downloads+"/models.default.svc.cluster.local/v1/model"); got != "weights" {
		t.Errorf("the container reads %q", got)
	}
}
