// SPDX-License-Identifier: Apache-2.0

package s3

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sedna-io/containerd-shim-sedna/storage/plan"
	"github.com/sedna-io/containerd-shim-sedna/storage/source"
	"github.com/sedna-io/containerd-shim-sedna/storage/source/ranged"
	"github.com/sedna-io/containerd-shim-sedna/storage/worker"
)

// An index file may name any bucket as its base; the node's keys are for some.
func TestBoundKeysSignRequestsBelowTheirPrefixesOnly(t *testing.T) {
	var signature string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		signature = r.Header.Get("Authorization")
	}))
	defer server.Close()
	network, err := ranged.NewNetwork(worker.Network{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer network.Close()
	for url, signed := range map[string]bool{
		"s3://models/open/m": true, "s3://models/private/m": false, "s3://models/open-not/m": false, "s3://other/open/m": false,
	} {
		u, err := plan.ParseURL(url)
		if err != nil {
			t.Fatal(err)
		}
		insecure := true
		src, err := New(network, plan.Download{URL: u, S3: plan.S3{
			Endpoint: strings.TrimPrefix(server.URL, "http://"), Insecure: &insecure,
		}}, plan.Credentials{
			AccessKey: plan.NewSecret("key"), SecretKey: plan.NewSecret("secret"), Prefixes: []string{"s3://models/open/"},
		})
		if err != nil {
			t.Fatal(err)
		}
		signature = ""
		reply, err := src.Open(t.Context(), source.Object{Key: u.Path, Size: source.Unknown}, 0, -1)
		if err != nil {
			t.Fatal(err)
		}
		_ = reply.Body.Close()
		if got := signature != ""; got != signed {
			t.Errorf("%s: signed is %t", url, got)
		}
	}
}
