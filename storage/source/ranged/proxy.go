// SPDX-License-Identifier: Apache-2.0

package ranged

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/containerd/errdefs"
	"golang.org/x/net/http/httpproxy"

	"github.com/sedna-io/containerd-shim-sedna/storage/worker"
)

// proxy is the node's way out for requests that don't match its exceptions.
// Who stands behind it is another network's, where names mean what the proxy's
// own resolver says. So no address can be checked for a name, and addresses that
// are written out are held to the rules of the node's network, wherever the
// worker itself is.
type proxy struct {
	choose  func(*url.URL) (*url.URL, error)
	address string // of the proxy itself
	guard   *guard
}

// newProxy returns nil where the node has none.
func newProxy(n worker.Network, g *guard) (*proxy, error) {
	if n.Proxy == "" {
		return nil, nil
	}
	u, err := url.Parse(n.Proxy)
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("the node's [storage] proxy is no URL: %w", errdefs.ErrInvalidArgument)
	}
	// Loopback is reached directly in any case, and guarded there.
	c := httpproxy.Config{HTTPProxy: n.Proxy, HTTPSProxy: n.Proxy, NoProxy: strings.Join(n.NoProxy, ",")}
	behind := *g
	behind.host = true
	return &proxy{choose: c.ProxyFunc(), address: canonical(u), guard: &behind}, nil
}

// canonical is how package http names a proxy's address when it dials.
func canonical(u *url.URL) string {
	p := u.Port()
	if p == "" {
		p = map[string]string{"http": "80", "https": "443", "socks5": "1080"}[u.Scheme]
	}
	return net.JoinHostPort(u.Hostname(), p)
}

// pick implements http.Transport's Proxy.
func (p *proxy) pick(r *http.Request) (*url.URL, error) {
	to, err := p.choose(r.URL)
	if err != nil {
		return nil, err
	}
	host := strings.TrimSuffix(r.URL.Hostname(), ".")
	if to == nil {
		if strings.EqualFold(net.JoinHostPort(r.URL.Hostname(), port(r.URL)), p.address) {
			return nil, refusedHost(host, "it is the node's proxy")
		}
		return nil, nil // its dialer is guarded
	}
	return to, p.guard.checkHost(host)
}

// dialer reaches the proxy, which is the node's own choice wherever it stands,
// and otherwise what may be dialled.
func (p *proxy) dialer(guarded dial) dial {
	free := &net.Dialer{Timeout: dialTimeout, KeepAlive: keepAlive}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if address == p.address {
			return free.DialContext(ctx, network, address)
		}
		return guarded(ctx, network, address)
	}
}

// written reads an address as a proxy's resolver may, inet_aton(3) included:
// 127.1, 0177.0.0.1, 0x7f000001 and 2130706433 are all 127.0.0.1. A host that
// ends in a number and is no address is no name either (WHATWG URL, "ends in a
// number checker").
func written(host string) (a netip.Addr, isAddress bool, err error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return a, true, nil
	}
	labels := strings.Split(host, ".")
	last := labels[len(labels)-1]
	if strings.EqualFold(last, "localhost") {
		return netip.AddrFrom4([4]byte{127, 0, 0, 1}), true, nil // RFC 6761, 6.3
	}
	if _, ok := digits(last); !ok && (last == "" || strings.Trim(last, "0123456789") != "") {
		return netip.Addr{}, false, nil
	}
	odd := refusedHost(host, "it is neither a name nor an address")
	if len(labels) > 4 {
		return netip.Addr{}, false, odd
	}
	var out uint64
	for i, label := range labels {
		n, ok := digits(label)
		bits := 8
		if i == len(labels)-1 {
			bits = 8 * (5 - len(labels))
		}
		if !ok || n>>bits != 0 {
			return netip.Addr{}, false, odd
		}
		out = out<<bits | n
	}
	return netip.AddrFrom4([4]byte{byte(out >> 24), byte(out >> 16), byte(out >> 8), byte(out)}), true, nil
}

// digits reads a number of decimal, octal or hexadecimal digits.
func digits(s string) (uint64, bool) {
	if s == "" || strings.Trim(s, "0123456789abcdefABCDEFxX") != "" {
		return 0, false
	}
	base := 10
	switch {
	case len(s) > 1 && (s[:2] == "0x" || s[:2] == "0X"):
		if s, base = s[2:], 16; s == "" {
			return 0, true
		}
	case len(s) > 1 && s[0] == '0':
		s, base = s[1:], 8
	}
	n, err := strconv.ParseUint(s, base, 64)
	return n, err == nil
}
