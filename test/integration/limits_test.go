// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"net"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/node"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/web"
)

func TestDownloadIntoAMemoryVolume(t *testing.T) {
	n := testutil.Node(t)
	server := n.Web(t)
	content := web.Bytes(32 << 20)
	pod := n.RunPod(t, node.PodSpec{
		Volumes:     []node.Volume{{Name: volume, Memory: true, SizeLimit: "64m"}},
		Annotations: asks(map[string]string{"model.url": server.File("/model", content)}),
	})
	container := pod.Start(t, node.ContainerSpec{})
	sameFiles(t, container.Tree(t, downloads+"/"+server.Host()), map[string][]byte{"model": content})
}

func TestModelThatCantFitFailsBeforeItsFirstByte(t *testing.T) {
	n := testutil.Node(t)
	server := n.Web(t)
	url := server.File("/model", web.Bytes(96<<20))
	pod := n.NewPod(t, node.PodSpec{
		Volumes:     []node.Volume{{Name: volume, Memory: true, SizeLimit: "64m"}},
		Annotations: asks(map[string]string{"model.url": url}),
	})
	message := pod.RunFails(t)
	t.Log(message)
	contains(t, message, "model", url, "96", "64")
	noFinalFiles(t, pod)
	var fsys unix.Statfs_t
	if err := unix.Statfs(pod.VolumeDir(volume), &fsys); err != nil {
		t.Fatal(err)
	}
	if used := (fsys.Blocks - fsys.Bfree) * uint64(fsys.Bsize); used > 1<<20 {
		t.Errorf("%d bytes of the volume are used", used)
	}
}

func TestHostNetworkPodDownloads(t *testing.T) {
	n := testutil.Node(t)
	server := n.Web(t)
	url := server.File("/model", []byte("x"))
	pod := n.RunPod(t, node.PodSpec{
		HostNetwork: true,
		Volumes:     []node.Volume{downloadVolume()},
		Annotations: asks(map[string]string{"model.url": url}),
	})
	container := pod.Start(t, node.ContainerSpec{})
	if got := container.Exec(t, "cat", downloads+"/"+server.Host()+"/model"); got != "x" {
		t.Errorf("the model holds %q", got)
	}
}

// A pod on the node's network must not reach what only the node may reach.
func TestHostNetworkPodCantDownloadFromLoopback(t *testing.T) {
	n := testutil.Node(t)
	local, err := web.Start("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	defer local.Close()
	redirect := n.Web(t).Redirect("/moved", local.File("/model", []byte("the node's own")))
	n.DNS.Set("sneaky.example.com", netip.MustParseAddr("127.0.0.1"))
	_, port, _ := net.SplitHostPort(local.Host())
	for name, url := range map[string]string{
		"by address":    "http://" + local.Host() + "/model",
		"by redirect":   redirect,
		"by name":       "http://sneaky.example.com:" + port + "/model",
		"by IPv4 in v6": "http://[::ffff:127.0.0.1]:" + port + "/model",
	} {
		t.Run(name, func(t *testing.T) {
			pod := testutil.Node(t).NewPod(t, node.PodSpec{
				HostNetwork: true,
				Volumes:     []node.Volume{downloadVolume()},
				Annotations: asks(map[string]string{"model.url": url}),
			})
			message := pod.RunFails(t)
			t.Log(message)
			contains(t, message, "model", "127.0.0.1")
			noFinalFiles(t, pod)
			if asked := local.Requests("/model"); len(asked) > 0 {
				t.Errorf("the node's own server was asked %d times", len(asked))
			}
		})
	}
}
