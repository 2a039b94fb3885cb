// SPDX-License-Identifier: Apache-2.0

package ranged

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/containerd/errdefs"

	"github.com/sedna-io/containerd-shim-sedna/storage/worker"
)

// What a proxy may be asked for: it stands in another network than the worker's,
// wherever that is.
func TestWhatIsAskedOfAProxy(t *testing.T) {
	for _, host := range []bool{false, true} {
		p := proxyOf(t, worker.Network{
			Host: host, Proxy: "http://proxy.example:3128", Deny: []string{"10.0.0.0/8"}, Allow: []string{"10.1.0.0/16"},
			NoProxy: []string{".svc", "minio.local:9000", "192.168.0.0/16", "10.9.0.0/16", "proxy.example"},
		})
		for raw, want := range map[string]string{
			"https://data.example.com/f":        "proxy",
			"http://93.184.216.34/f":            "proxy",
			"http://10.1.2.3/f":                 "proxy",
			"http://10.2.3.4/f":                 "denied",
			"http://169.254.169.254/f":          "denied",
			"http://169.254.169.254./f":         "denied",
			"http://2852039166/f":               "denied",
			"http://0xa9fea9fe/f":               "denied",
			"http://0251.254.169.254/f":         "denied",
			"http://169.254.43518/f":            "denied",
			"http://2130706433/f":               "denied",
			"http://127.1/f":                    "denied",
			"http://0x7f.1/f":                   "denied",
			"http://0/f":                        "denied",
			"http://[::ffff:169.254.169.254]/f": "denied",
			"http://[64:ff9b::7f00:1]/f":        "denied",
			"http://files.localhost/f":          "denied",
			"http://1.2.3.4.5/f":                "denied",
			"http://256.256.256.256/f":          "denied",
			"http://name.08/f":                  "denied",
			"http://4294967296/f":               "denied",
			"http://beef/f":                     "proxy",
			"http://dead.beef/f":                "proxy",
			"http://a1/f":                       "proxy",
			"http://localhost/f":                "direct",
			"http://127.0.0.1/f":                "direct",
			"http://[::1]/f":                    "direct",
			"http://minio.vision.svc/f":         "direct",
			"http://minio.local:9000/f":         "direct",
			"http://minio.local/f":              "proxy",
			"http://192.168.3.4/f":              "direct",
			"http://10.9.9.9/f":                 "direct",
			"http://proxy.example:3128/f":       "denied",
			"http://proxy.example/f":            "direct",
		} {
			u, err := url.Parse(raw)
			if err != nil {
				t.Fatal(err)
			}
			to, err := p.pick(&http.Request{URL: u})
			got := "direct"
			switch {
			case errors.Is(err, errdefs.ErrPermissionDenied):
				got = "denied"
			case err != nil:
				t.Fatalf("%s: %v", raw, err)
			case to != nil:
				got = "proxy"
			}
			if got != want {
				t.Errorf("%s, in the node's network %v: it's %s, want %s (%v)", raw, host, got, want, err)
			}
		}
	}
}

// What goes past the proxy is guarded as if there were none.
func TestNoProxyIsNoWayAroundTheGuard(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	for _, host := range []bool{false, true} {
		n, err := NewNetwork(worker.Network{Host: host, Proxy: "http://127.0.0.1:1"}, 1)
		if err != nil {
			t.Fatal(err)
		}
		defer n.Close()
		c, err := n.NewClient(nil, false)
		if err != nil {
			t.Fatal(err)
		}
		u, err := url.Parse(s.URL)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := c.Do(t.Context(), http.MethodGet, u, nil)
		if err == nil {
			resp.Body.Close()
		}
		if errors.Is(err, errdefs.ErrPermissionDenied) != host {
			t.Errorf("in the node's network %v: %v", host, err)
		}
	}
}

func proxyOf(t *testing.T, n worker.Network) *proxy {
	t.Helper()
	g, err := newGuard(n)
	if err != nil {
		t.Fatal(err)
	}
	p, err := newProxy(n, g)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
