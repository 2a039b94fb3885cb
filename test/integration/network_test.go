// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"net"
	"net/http/httputil"
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

// Where clouds keep a node's keys.
const (
	metadata  = "169.254.169.254"
	metadata6 = "fd00:ec2::254"
)

// newMetadata starts such servers in the node's network, and fails the test if
// anybody asks them.
func newMetadata(t *testing.T) {
	t.Helper()
	loopback, err := netlink.LinkByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{metadata + "/32", metadata6 + "/128"} {
		address, err := netlink.ParseAddr(at)
		if err != nil {
			t.Fatal(err)
		}
		address.Flags = unix.IFA_F_NODAD // it can be used at once
		if err := netlink.AddrAdd(loopback, address); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = netlink.AddrDel(loopback, address) })
		server, err := web.Start(net.JoinHostPort(address.IP.String(), "80"))
		if err != nil {
			t.Fatal(err)
		}
		server.File("/keys", []byte("the node's keys"))
		t.Cleanup(func() {
			_ = server.Close()
			if asked := server.All(); len(asked) > 0 {
				t.Errorf("the node's metadata at %s was asked: %v", at, asked)
			}
		})
	}
}

// forms are the ways to write the addresses of metadata, by name. Those that are
// names to Go's resolver are known to the pods' name server.
func forms(n testutil.TestNode, away func(to string) string) map[string]string {
	all := map[string]string{}
	for form, host := range map[string]string{
		"its address":          metadata,
		"mapped to IPv6":       "[::ffff:" + metadata + "]",
		"mapped, in hex":       "[::ffff:a9fe:a9fe]",
		"compatible with IPv6": "[::" + metadata + "]",
		"behind NAT64":         "[64:ff9b::a9fe:a9fe]",
		"of IPv6":              "[" + metadata6 + "]",
		"of IPv6, in full":     "[fd00:0ec2:0:0:0:0:0:254]",
		"with a dot":           metadata + ".",
		"a decimal number":     "2852039166",
		"octal numbers":        "0251.0376.0251.0376",
		"hex numbers":          "0xa9.0xfe.0xa9.0xfe",
		"one hex number":       "0xa9fea9fe",
		"less numbers":         "169.254.43518",
		"a name":               "keys.example.com",
	} {
		all[form] = "http://" + host + "/keys"
		if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err != nil {
			n.DNS.Set(strings.TrimSuffix(host, "."), netip.MustParseAddr(metadata))
		}
	}
	all["a redirect"] = away("http://" + metadata + "/keys")
	all["a redirect to IPv6"] = away("http://[" + metadata6 + "]/keys")
	return all
}

// redirects makes URLs of a server that lead to another.
func redirects(server *web.Server) func(to string) string {
	n := 0
	return func(to string) string {
		n++
		return server.Redirect(fmt.Sprintf("/away-%d", n), to)
	}
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
	newMetadata(t)
	nodeKnows(t, "keys.example.com", metadata)
	for name, spec := range map[string]node.PodSpec{
		"network = host":        {Handler: nodeNetwork},
		"a pod on that network": {Handler: node.Sedna, HostNetwork: true},
	} {
		for form, url := range forms(n, redirects(n.Web(t))) {
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
	newMetadata(t)
	for form, url := range forms(n, redirects(n.Web(t))) {
		t.Run(form, func(t *testing.T) {
			pod := n.NewPod(t, node.PodSpec{
				Volumes:     []node.Volume{downloadVolume()},
				Annotations: asks(map[string]string{"keys.url": url}),
			})
			contains(t, pod.RunFails(t), "PermissionDenied", "may not be dialled")
			noFinalFiles(t, pod)
		})
	}
}

// The node's own proxy reaches all that the node reaches, and resolves names.
func TestThroughTheNodesProxyItsMetadataIsNotReached(t *testing.T) {
	n := testutil.Node(t)
	newMetadata(t)
	proxy := n.Web(t)
	proxy.Handle("", &httputil.ReverseProxy{Rewrite: func(*httputil.ProxyRequest) {}})
	server := n.Web(t)
	all := forms(n, redirects(server))
	delete(all, "a name") // which is the proxy's to judge
	for _, network := range []string{"pod", "host"} {
		n.Configure(t, configured, "[storage]\nnetwork = \""+network+"\"\nproxy = \"http://"+proxy.Host()+"\"\n")
		for form, url := range all {
			t.Run(network+", "+form, func(t *testing.T) {
				pod := n.NewPod(t, node.PodSpec{
					Handler: configured, Volumes: []node.Volume{downloadVolume()},
					Annotations: asks(map[string]string{"keys.url": url}),
				})
				contains(t, pod.RunFails(t), "PermissionDenied")
				noFinalFiles(t, pod)
			})
		}
		pod := n.RunPod(t, node.PodSpec{
			Handler: configured, Volumes: []node.Volume{downloadVolume()},
			Annotations: asks(map[string]string{"model.url": server.File("/model", []byte("x"))}),
		})
		holds(t, pod.Start(t, node.ContainerSpec{}), downloads+"/"+server.Host()+"/model", "x")
	}
	if len(proxy.Requests("/model")) != 2 {
		t.Errorf("the proxy was not used: %v", proxy.All())
	}
	if asked := proxy.Requests("/keys"); len(asked) > 0 {
		t.Errorf("the proxy was asked for the node's metadata: %v", asked)
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
		{handler: otherwise, dns: otherNetwork.Address, holds: "two", from: "10.90.", server: two},
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
