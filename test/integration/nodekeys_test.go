// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/node"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/web"
)

// modelsName is the name of a server that the node has a token for.
const modelsName = "models.node.test"

// vault is such a server, and the node that lets the namespace vision use the
// token for /open/.
type vault struct {
	*web.Server
	node testutil.TestNode
	host string // name and port
}

func newVault(t *testing.T) vault {
	n := testutil.Node(t)
	ca := n.Authority(t)
	v := vault{n.TLS(t, ca, modelsName), n, ""}
	v.host = modelsName + ":" + v.Port()
	for _, path := range []string{"/open/model", "/private/model", "/open-not/model"} {
		v.Handle(path, wants("Authorization", "Bearer "+canary, []byte("private")))
	}
	v.Redirect("/open/away", "/private/model")
	n.DNS.Set(modelsName, netip.MustParseAddr(node.Address))
	dir := t.TempDir()
	put(t, dir+"/ca.pem", string(ca.PEM))
	put(t, dir+"/models.env", "BEARER_TOKEN="+canary+"\n")
	n.Configure(t, configured, fmt.Sprintf(`
[[endpoint]]
host = %q
credentials_file = "%s/models.env"
ca_file = "%[2]s/ca.pem"
namespaces = ["vision"]
prefixes = ["https://%[1]s/open/", "http://%[1]s/open/"]
`, v.host, dir))
	return v
}

// pod is a pod that asks for one URL.
func (v vault) pod(namespace string, asked map[string]string, more ...node.Volume) node.PodSpec {
	return node.PodSpec{
		Handler: configured, Namespace: namespace,
		Volumes:     append([]node.Volume{downloadVolume()}, more...),
		Annotations: asks(asked),
	}
}

// refuses runs a pod that must not start, and looks at the error's text.
func (v vault) refuses(t *testing.T, spec node.PodSpec, says ...string) {
	t.Helper()
	noFinalFiles(t, v.fails(t, spec, says...))
}

func (v vault) fails(t *testing.T, spec node.PodSpec, says ...string) testutil.TestPod {
	t.Helper()
	since := v.node.LogSize()
	pod := v.node.NewPod(t, spec)
	message := pod.RunFails(t)
	t.Log(message)
	contains(t, message, says...)
	lacks(t, message, canary)
	lacks(t, v.node.Log(since, 1000), canary)
	return pod
}

func TestNodesTokenIsForItsNamespaceAndPrefix(t *testing.T) {
	v := newVault(t)
	for _, c := range []struct{ name, namespace, path, shown, code string }{
		{"another namespace", "default", "/open/model", "/open/model", "403"},
		{"a namespace with a similar name", "vision-2", "/open/model", "/open/model", "403"},
		{"another prefix", "vision", "/private/model", "/private/model", "403"},
		{"a prefix with a similar name", "vision", "/open-not/model", "/open-not/model", "403"},
		{"a redirect to another prefix", "vision", "/open/away", "/open/away", "403"},
		{"dots in the URL", "vision", "/open/%2e%2e/private/model", "/private/model", "404"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v.refuses(t, v.pod(c.namespace, map[string]string{"model.url": "https://" + v.host + c.path}),
				"model", v.host+c.shown, c.code)
		})
	}
	for _, request := range v.All() {
		if request.Header.Get("Authorization") != "" && request.Path != "/open/away" {
			t.Errorf("the token was sent for %s", request.Path)
		}
	}
	pod := v.node.RunPod(t, v.pod("vision", map[string]string{"model.url": "https://" + v.host + "/open/model"}))
	container := pod.Start(t, node.ContainerSpec{})
	holds(t, container, downloads+"/"+v.host+"/open/model", "private")
	lacks(t, container.Exec(t, "env")+container.Exec(t, "mounts"), canary)
}

// A pod chooses its own name servers, and may have any server on its network.
func TestNodesTokenDoesNotFollowThePodsDNS(t *testing.T) {
	v := newVault(t)
	neighbour := v.node.Neighbour(t)
	theirs := v.node.Authority(t)
	v.node.NameServer(t, neighbour).Set(modelsName, netip.MustParseAddr(neighbour))
	misled := func(spec node.PodSpec) node.PodSpec {
		spec.DNS = []string{neighbour}
		return spec
	}
	secure, err := theirs.Start(neighbour+":"+v.Port(), modelsName)
	if err != nil {
		t.Fatal(err)
	}
	secure.File("/open/model", []byte("theirs"))
	v.refuses(t, misled(v.pod("vision", map[string]string{"model.url": "https://" + v.host + "/open/model"})),
		"PermissionDenied", "model", v.host, "unknown authority")
	if asked := secure.All(); len(asked) > 0 {
		t.Errorf("a server that the node can't verify was asked: %v", asked)
	}
	// With an authority of its own the pod gets what that server has, and that
	// server gets nothing.
	own := node.Volume{Name: "trust", Kind: node.Secret, Files: map[string]string{"ca.crt": string(theirs.PEM)}}
	pod := v.node.RunPod(t, misled(v.pod("vision", map[string]string{
		"model.url": "https://" + v.host + "/open/model", "secret": "trust",
	}, own)))
	holds(t, pod.Start(t, node.ContainerSpec{}), downloads+"/"+v.host+"/open/model", "theirs")
	noSecretSent(t, secure)
	if err := secure.Close(); err != nil {
		t.Fatal(err)
	}

	plain, err := web.Start(neighbour + ":" + v.Port())
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	plain.File("/open/model", []byte("theirs"))
	v.refuses(t, misled(v.pod("vision", map[string]string{"model.url": "http://" + v.host + "/open/model"})),
		"PermissionDenied", "model", v.host, "verified TLS", "secret")
	if asked := plain.All(); len(asked) > 0 {
		t.Errorf("the server in the middle was asked: %v", asked)
	}
}

func TestNodesTokenGoesOverPlainHTTPFromTheNodesNetworkOnly(t *testing.T) {
	n := testutil.Node(t)
	server := n.Web(t)
	link := server.Handle("/open/model", wants("Authorization", "Bearer "+canary, []byte("private")))
	dir := t.TempDir()
	put(t, dir+"/models.env", "BEARER_TOKEN="+canary+"\n")
	endpoint := fmt.Sprintf("[[endpoint]]\nhost = %q\ncredentials_file = \"%s/models.env\"\nnamespaces = [\"*\"]\nprefixes = [\"http://%[1]s/open/\"]\n",
		server.Host(), dir)
	spec := node.PodSpec{Handler: configured, Volumes: []node.Volume{downloadVolume()}, Annotations: asks(map[string]string{"model.url": link})}

	n.Configure(t, configured, endpoint)
	refused := n.NewPod(t, spec)
	contains(t, refused.RunFails(t), "PermissionDenied", "model", link, "verified TLS", `network = "host"`)
	noSecretSent(t, server)

	n.Configure(t, configured, "[storage]\nnetwork = \"host\"\n"+endpoint)
	pod := n.RunPod(t, spec)
	holds(t, pod.Start(t, node.ContainerSpec{}), downloads+"/"+server.Host()+"/open/model", "private")
}
