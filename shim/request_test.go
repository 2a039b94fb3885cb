// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"

	"github.com/sedna-io/containerd-shim-sedna/internal/config"
	"github.com/sedna-io/containerd-shim-sedna/shim/bundle"
	"github.com/sedna-io/containerd-shim-sedna/storage/plan"
)

func TestNodesKeysGoOnlyWhereTheNodesOwnNamesAndNetworkLead(t *testing.T) {
	keys := filepath.Join(t.TempDir(), "keys.env")
	if err := os.WriteFile(keys, []byte("BEARER_TOKEN=canary\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, network, url string
		hostNetwork        bool
		skipVerify         bool
		refused            bool
	}{
		{name: "https through the pod's network", network: "pod", url: "https://h/f"},
		{name: "http through the pod's network", network: "pod", url: "http://h/f", refused: true},
		{name: "unverified https through the pod's network", network: "pod", url: "https://h/f", skipVerify: true, refused: true},
		{name: "http through the node's network", network: "host", url: "http://h/f"},
		{name: "http by the name servers of a hostNetwork pod", network: "pod", url: "http://h/f", hostNetwork: true, refused: true},
		{name: "the same where all use the node's network", network: "host", url: "http://h/f", hostNetwork: true, refused: true},
		{name: "unverified https by the name servers of a hostNetwork pod", network: "host", url: "https://h/f", hostNetwork: true, skipVerify: true, refused: true},
		{name: "https by the name servers of a hostNetwork pod", network: "pod", url: "https://h/f", hostNetwork: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			u, err := plan.ParseURL(tt.url)
			if err != nil {
				t.Fatal(err)
			}
			cfg := &config.Config{Endpoints: []config.Endpoint{{
				Host: "h", CredentialsFile: keys, Namespaces: []string{"*"}, Prefixes: []string{u.Scheme + "://h/"}, InsecureSkipVerify: tt.skipVerify,
			}}}
			cfg.Storage.Network = tt.network
			p := &sandbox{cfg: cfg, pod: bundle.Pod{Namespace: "ns", HasNetNS: !tt.hostNetwork}, log: log.G(context.Background())}
			s := secrets{sandbox: p}
			c, err := s.of(plan.Download{URL: u, Mounts: []string{"m"}})
			if tt.refused != errdefs.IsPermissionDenied(err) || tt.refused == (err == nil) {
				t.Errorf("error is %v, want it refused: %t", err, tt.refused)
			}
			if got := c.BearerToken.Reveal(); (got == "canary") == tt.refused {
				t.Errorf("token is %q", got)
			}
		})
	}
}
