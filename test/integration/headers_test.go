// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"bytes"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/node"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/web"
)

// wants serves content to requests that have a header with this value.
func wants(header, value string, content []byte) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(header) != value {
			http.Error(w, "no", http.StatusForbidden)
			return
		}
		http.ServeContent(w, r, "model", time.Time{}, bytes.NewReader(content))
	})
}

// noSecretSent fails when a server has seen anything of a secret.
func noSecretSent(t *testing.T, server *web.Server) {
	t.Helper()
	for _, request := range server.All() {
		for name, values := range request.Header {
			for _, value := range values {
				if name == "Authorization" || name == "X-Token" || name == "Cookie" {
					t.Errorf("%s %s got %s: %s", request.Method, request.Path, name, value)
				}
				lacks(t, value, canary)
			}
		}
		lacks(t, request.Query, canary)
	}
}

func TestBearerTokenPasswordAndHeadersOpenAWebServer(t *testing.T) {
	n := testutil.Node(t)
	server := n.Web(t)
	host, _, err := net.SplitHostPort(server.Host())
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		files         map[string]string
		header, value string
	}{
		"bearer":       {map[string]string{"BEARER_TOKEN": canary}, "Authorization", "Bearer " + canary},
		"hugging face": {map[string]string{"HF_TOKEN": canary + "\n"}, "Authorization", "Bearer " + canary},
		"basic":        {map[string]string{"username": "u", "password": "p"}, "Authorization", "Basic dTpw"},
		"headers":      {map[string]string{host + "-headers": `{"X-Token": "` + canary + `"}`}, "X-Token", canary},
	} {
		t.Run(name, func(t *testing.T) {
			n := testutil.Node(t)
			url := server.Handle("/model", wants(c.header, c.value, []byte("private")))
			pod := n.RunPod(t, node.PodSpec{
				Volumes:     []node.Volume{downloadVolume(), {Name: "token", Kind: node.Secret, Files: c.files}},
				Annotations: asks(map[string]string{"model.url": url, "secret": "token"}),
			})
			container := pod.Start(t, node.ContainerSpec{})
			holds(t, container, downloads+"/"+server.Host()+"/model", "private")
			lacks(t, container.Exec(t, "env"), canary)
		})
	}
}

func TestHeadersAreSentToTheirHostOnly(t *testing.T) {
	n := testutil.Node(t)
	server := n.Web(t)
	url := server.File("/model", []byte("public"))
	pod := n.RunPod(t, node.PodSpec{
		Volumes: []node.Volume{downloadVolume(), {Name: "token", Kind: node.Secret, Files: map[string]string{
			"models.example.com-headers": `{"X-Token": "` + canary + `"}`,
		}}},
		Annotations: asks(map[string]string{"model.url": url, "secret": "token"}),
	})
	holds(t, pod.Start(t, node.ContainerSpec{}), downloads+"/"+server.Host()+"/model", "public")
	noSecretSent(t, server)
}

func TestRedirectToAnotherHostCarriesNoCredentials(t *testing.T) {
	n := testutil.Node(t)
	for name, files := range map[string]map[string]string{
		"bearer":  {"BEARER_TOKEN": canary},
		"basic":   {"username": "u", "password": canary},
		"headers": {node.Address + "-headers": `{"X-Token": "` + canary + `", "Cookie": "session=` + canary + `"}`},
	} {
		t.Run(name, func(t *testing.T) {
			n := testutil.Node(t)
			first, second := n.Web(t), n.Web(t)
			url := first.Redirect("/model", second.File("/elsewhere", []byte("public")))
			pod := n.RunPod(t, node.PodSpec{
				Volumes:     []node.Volume{downloadVolume(), {Name: "token", Kind: node.Secret, Files: files}},
				Annotations: asks(map[string]string{"model.url": url, "secret": "token"}),
			})
			holds(t, pod.Start(t, node.ContainerSpec{}), downloads+"/"+first.Host()+"/model", "public")
			if len(second.All()) == 0 {
				t.Error("the redirect was not followed")
			}
			noSecretSent(t, second)
		})
	}
	ca := n.Authority(t)
	secure, plain := n.TLS(t, ca), n.Web(t)
	url := secure.Redirect("/model", plain.File("/elsewhere", nil))
	failing{
		asks: map[string]string{"model.url": url, "secret": "token"},
		volumes: []node.Volume{downloadVolume(), {Name: "token", Kind: node.Secret, Files: map[string]string{
			"BEARER_TOKEN": canary, "ca.crt": string(ca.PEM),
		}}},
		says: []string{"PermissionDenied", "model", url, "from https to http"},
	}.run(t, n)
	if asked := plain.All(); len(asked) > 0 {
		t.Errorf("a redirect from https to http was followed: %v", asked)
	}
}
