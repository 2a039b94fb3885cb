// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/node"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/web"
)

// metadata is where clouds keep a node's keys.
const metadata = "169.254.169.254"

// newMetadata starts such a server in the node's network.
func newMetadata(t *testing.T) *web.Server {
	t.Helper()
	loopback, err := netlink.LinkByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	address, err := netlink.ParseAddr(metadata + "/32")
	if err != nil {
		t.Fatal(err)
	}
	if err := netlink.AddrAdd(loopback, address); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = netlink.AddrDel(loopback, address) })
	server, err := web.Start(metadata + ":80")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	server.File("/keys", []byte("the node's keys"))
	return server
}

// nodeKnows adds a name to the node's hosts file, as all of the test's node see it.
func nodeKnows(t *testing.T, name, address string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(file, []byte("127.0.0.1 localhost\n"+address+" "+name+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(file, "/etc/hosts", "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount("/etc/hosts", unix.MNT_DETACH) })
}

func TestOnTheNodesNetworkItsMetadataIsNotReached(t *testing.T) {
	n := testutil.Node(t)
	keys := newMetadata(t)
	nodeKnows(t, "keys.example.com", metadata)
	server := n.Web(t)
	away := server.Handle("/away", http.RedirectHandler("http://"+metadata+"/keys", http.StatusFound))
	for name, spec := range map[string]node.PodSpec{
		"network = host":        {Handler: nodeNetwork},
		"a pod on that network": {Handler: node.Sedna, HostNetwork: true},
	} {
		for form, url := range map[string]string{
			"its address":      "http://" + metadata + "/keys",
			"mapped to IPv6":   "http://[::ffff:" + metadata + "]/keys",
			"mapped, in hex":   "http://[::ffff:a9fe:a9fe]/keys",
			"a decimal number": "http://2852039166/keys",
			"octal numbers":    "http://0251.0376.0251.0376/keys",
			"a name":           "http://keys.example.com/keys",
			"a redirect":       away,
		} {
			t.Run(name+", "+form, func(t *testing.T) {
				spec := spec
				spec.Volumes = []node.Volume{downloadVolume()}
				spec.Annotations = asks(map[string]string{"keys.url": url})
				pod := n.NewPod(t, spec)
				t.Log(pod.RunFails(t))
				noFinalFiles(t, pod)
			})
		}
	}
	if asked := keys.Requests("/keys"); len(asked) > 0 {
		t.Errorf("the node's metadata was asked: %v", asked)
	}
}

func TestOnTheNodesNetworkOtherServersAreReached(t *testing.T) {
	n := testutil.Node(t)
	nodeKnows(t, "models.example.com", node.Address)
	server := n.Web(t)
	server.File("/model", []byte("x"))
	pod := n.RunPod(t, node.PodSpec{
		Handler:     nodeNetwork,
		Volumes:     []node.Volume{downloadVolume()},
		Annotations: asks(map[string]string{"model.url": "http://models.example.com:" + server.Port() + "/model"}),
	})
	container := pod.Start(t, node.ContainerSpec{})
	dir := downloads + "/models.example.com:" + server.Port()
	sameFiles(t, container.Tree(t, dir), map[string][]byte{"model": []byte("x")})
	for _, request := range server.Requests("/model") {
		if request.From != node.Address {
			t.Errorf("the download came from %s, not from the node", request.From)
		}
	}
}

// A node may well deliver to its metadata what comes out of a pod.
func TestOnAPodsNetworkTheNodesMetadataIsNotReached(t *testing.T) {
	n := testutil.Node(t)
	keys := newMetadata(t)
	n.DNS.Set("keys.example.com", netip.MustParseAddr(metadata))
	away := n.Web(t).Handle("/away", http.RedirectHandler("http://"+metadata+"/keys", http.StatusFound))
	for form, url := range map[string]string{
		"its address":    "http://" + metadata + "/keys",
		"mapped to IPv6": "http://[::ffff:" + metadata + "]/keys",
		"a name":         "http://keys.example.com/keys",
		"a redirect":     away,
	} {
		t.Run(form, func(t *testing.T) {
			pod := n.NewPod(t, node.PodSpec{
				Volumes:     []node.Volume{downloadVolume()},
				Annotations: asks(map[string]string{"keys.url": url}),
			})
			contains(t, pod.RunFails(t), "PermissionDenied", metadata)
			noFinalFiles(t, pod)
		})
	}
	if asked := keys.Requests("/keys"); len(asked) > 0 {
		t.Errorf("the node's metadata was asked: %v", asked)
	}
}

// Both pods ask for the same URL; the networks' name servers know it by one name
// with an address of their own each.
func TestEachPodsDownloadTakesThePodsOwnNetworkAndNames(t *testing.T) {
	n := testutil.Node(t)
	const name = "models.example.com"
	n.NameServer(t, otherNetwork.Address).Set(name, netip.MustParseAddr(otherNetwork.Address))
	n.DNS.Set(name, netip.MustParseAddr(node.Address))
	one := n.Web(t)
	two, err := web.Start(net.JoinHostPort(otherNetwork.Address, one.Port()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = two.Close() })
	one.File("/model", []byte("one"))
	two.File("/model", []byte("two"))
	for _, c := range []struct {
		handler, dns, holds, from string
		server                    *web.Server
	}{
		{handler: node.Sedna, dns: node.Address, holds: "one", from: "10.89.", server: one},
		{handler: elsewhere, dns: otherNetwork.Address, holds: "two", from: "10.90.", server: two},
	} {
		t.Run(c.handler, func(t *testing.T) {
			pod := n.RunPod(t, node.PodSpec{
				Handler: c.handler, DNS: []string{c.dns}, Volumes: []node.Volume{downloadVolume()},
				Annotations: asks(map[string]string{"model.url": "http://" + name + ":" + one.Port() + "/model"}),
			})
			container := pod.Start(t, node.ContainerSpec{})
			holds(t, container, downloads+"/"+name+":"+one.Port()+"/model", c.holds)
			for _, request := range c.server.All() {
				if !strings.HasPrefix(request.From, c.from) || request.From == c.dns {
					t.Errorf("the download came from %s, not from a pod of its network", request.From)
				}
			}
		})
	}
}
