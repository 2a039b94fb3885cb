// SPDX-License-Identifier: Apache-2.0

package web

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sedna-io/containerd-shim-sedna/storage/plan"
	"github.com/sedna-io/containerd-shim-sedna/storage/source"
	"github.com/sedna-io/containerd-shim-sedna/storage/source/ranged"
	"github.com/sedna-io/containerd-shim-sedna/storage/worker"
)

// An open redirect on a server must not lend the node's token to a pod that may
// use it for one folder only.
func TestBoundCredentialsDontFollowARedirectOutOfTheirPrefixes(t *testing.T) {
	sent := map[string]string{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent[r.URL.Path] = r.Header.Get("Authorization") + r.Header.Get("X-Token")
		if to := r.URL.Query().Get("to"); to != "" {
			http.Redirect(w, r, to, http.StatusFound)
			return
		}
		_, _ = io.WriteString(w, "bytes")
	}))
	defer server.Close()
	for name, c := range map[string]struct {
		prefixes []string
		to       string
		want     string
	}{
		"inside":             {[]string{server.URL + "/open"}, "/open/b", "Bearer tokenheader"},
		"outside":            {[]string{server.URL + "/open"}, "/private/b", ""},
		"a similar name":     {[]string{server.URL + "/open"}, "/open-not/b", ""},
		"dots":               {[]string{server.URL + "/open"}, "/open/%2e%2e/private/b", ""},
		"one of two":         {[]string{server.URL + "/x", server.URL + "/private/"}, "/private/b", "Bearer tokenheader"},
		"the pod's, unbound": {nil, "/private/b", "Bearer tokenheader"},
	} {
		t.Run(name, func(t *testing.T) {
			clear(sent)
			src := open(t, server.URL+"/open/a?to="+c.to, plan.Credentials{
				BearerToken: plan.NewSecret("token"),
				Headers:     map[string]plan.Secret{"X-Token": plan.NewSecret("header")},
				Prefixes:    c.prefixes,
			})
			reply, err := src.Open(t.Context(), source.Object{Size: source.Unknown}, 0, -1)
			if err != nil {
				t.Fatal(err)
			}
			_ = reply.Body.Close()
			for path, got := range sent {
				if path != "/open/a" && got != c.want {
					t.Errorf("%s got %q, not %q", path, got, c.want)
				}
			}
			if len(sent) != 2 {
				t.Errorf("the redirect was not followed: %v", sent)
			}
		})
	}
}

func TestPasswordInTheURLIsSentWhateverElseIsBound(t *testing.T) {
	var got http.Header
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header.Clone() }))
	defer server.Close()
	src := open(t, strings.Replace(server.URL, "//", "//user:pass@", 1)+"/a", plan.Credentials{
		Headers:  map[string]plan.Secret{"X-Token": plan.NewSecret("header")},
		Prefixes: []string{server.URL + "/elsewhere"},
	})
	reply, err := src.Open(t.Context(), source.Object{Size: source.Unknown}, 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	_ = reply.Body.Close()
	if !strings.HasPrefix(got.Get("Authorization"), "Basic ") || got.Get("X-Token") != "" {
		t.Errorf("sent %v", got)
	}
}

func open(t *testing.T, raw string, c plan.Credentials) *Source {
	t.Helper()
	u, err := plan.ParseURL(raw)
	if err != nil {
		t.Fatal(err)
	}
	network, err := ranged.NewNetwork(worker.Network{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(network.Close)
	src, err := New(network, u, c)
	if err != nil {
		t.Fatal(err)
	}
	return src
}
