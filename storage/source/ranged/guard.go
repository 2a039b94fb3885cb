// SPDX-License-Identifier: Apache-2.0

package ranged

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"

	"github.com/sedna-io/containerd-shim-sedna/storage/source"
	"github.com/sedna-io/containerd-shim-sedna/storage/worker"
)

// guard decides which addresses may be dialled.
type guard struct {
	host        bool
	deny, allow []netip.Prefix
}

// hostDenied are reached from the node's own network only by those who have
// no business there: they lead to the node itself and to its neighbours.
var hostDenied = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),      // "this" host: connects to loopback on Linux
	netip.MustParsePrefix("127.0.0.0/8"),    // loopback
	netip.MustParsePrefix("169.254.0.0/16"), // link-local
	netip.MustParsePrefix("224.0.0.0/3"),    // multicast, reserved, broadcast
	netip.MustParsePrefix("::/127"),         // unspecified and loopback
	netip.MustParsePrefix("fe80::/10"),      // link-local
	netip.MustParsePrefix("ff00::/8"),       // multicast
}

// metadata is where clouds hand out the keys of a node or of a pod. Nobody's
// model lies there, and a node may deliver to it what comes out of a pod before
// the pod's policies are in force.
var metadata = []netip.Prefix{
	netip.MustParsePrefix("169.254.169.254/32"), // AWS, Azure, Google and most others
	netip.MustParsePrefix("169.254.170.2/32"),   // AWS: containers of ECS
	netip.MustParsePrefix("169.254.170.23/32"),  // AWS: pods of EKS
	netip.MustParsePrefix("100.100.100.200/32"), // Alibaba Cloud
	netip.MustParsePrefix("192.0.0.192/32"),     // Oracle Cloud Classic
	netip.MustParsePrefix("fd00:ec2::254/128"),  // AWS
	netip.MustParsePrefix("fd00:ec2::23/128"),   // AWS: pods of EKS
	netip.MustParsePrefix("fd20:ce::254/128"),   // Google
}

// embedded are ranges of IPv6 addresses that carry an IPv4 address at some
// byte: a translator would deliver to that one.
var embedded = []struct {
	prefix netip.Prefix
	at     int
}{
	{netip.MustParsePrefix("::/96"), 12},        // IPv4-compatible
	{netip.MustParsePrefix("64:ff9b::/96"), 12}, // NAT64
	{netip.MustParsePrefix("2002::/16"), 2},     // 6to4
}

func newGuard(n worker.Network) (*guard, error) {
	g := &guard{host: n.Host}
	var err error
	if g.deny, err = prefixes(n.Deny); err != nil {
		return nil, fmt.Errorf("read the node's deny_cidrs: %w", err)
	}
	if g.allow, err = prefixes(n.Allow); err != nil {
		return nil, fmt.Errorf("read the node's allow_cidrs: %w", err)
	}
	return g, nil
}

func prefixes(list []string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, s := range list {
		p, err := netip.ParsePrefix(s)
		if err != nil {
			return nil, fmt.Errorf("%q is no CIDR: %w", s, errdefs.ErrInvalidArgument)
		}
		out = append(out, p.Masked())
	}
	return out, nil
}

// check refuses an address that the node's settings deny. allow wins.
func (g *guard) check(a netip.Addr) error {
	for _, form := range forms(a) {
		if in(g.allow, form) {
			return nil
		}
	}
	for _, form := range forms(a) {
		if in(g.deny, form) {
			return denied(a, "the node's deny_cidrs")
		}
		if in(metadata, form) {
			return denied(a, "clouds hand out keys there")
		}
		if g.host && in(hostDenied, form) {
			return denied(a, "in the node's network, loopback and link-local addresses are denied")
		}
	}
	return nil
}

// checkHost is check for a host that isn't resolved yet, maybe by somebody else.
func (g *guard) checkHost(host string) error {
	a, isAddress, err := written(strings.TrimSuffix(host, "."))
	if err == nil && isAddress {
		err = g.check(a)
	}
	return err
}

func denied(a netip.Addr, why string) error {
	return &source.Error{
		Kind: errdefs.ErrPermissionDenied,
		Why:  fmt.Sprintf("the address %s may not be dialled (%s)", a, why),
		Hint: "an operator can allow it in [storage] allow_cidrs",
	}
}

// refusedHost is for hosts that no allow_cidrs could allow.
func refusedHost(host, why string) error {
	return &source.Error{
		Kind: errdefs.ErrPermissionDenied, Why: fmt.Sprintf("the host %q may not be asked for (%s)", host, why), Hint: "write the host's name, or its address in the usual way",
	}
}

// forms returns the address as it is and every IPv4 address inside it.
func forms(a netip.Addr) []netip.Addr {
	a = a.WithZone("").Unmap()
	out := []netip.Addr{a}
	if a.Is4() {
		return out
	}
	b := a.As16()
	for _, e := range embedded {
		if e.prefix.Contains(a) {
			out = append(out, netip.AddrFrom4([4]byte(b[e.at:e.at+4])))
		}
	}
	return out
}

func in(list []netip.Prefix, a netip.Addr) bool {
	for _, p := range list {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// dialer dials what may be dialled.
func (n *Network) dialer() dial {
	d := &net.Dialer{Timeout: dialTimeout, KeepAlive: keepAlive, Control: n.control}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if host, _, err := net.SplitHostPort(address); err == nil {
			if err := n.guard.checkHost(host); err != nil {
				return nil, err
			}
		}
		return d.DialContext(ctx, network, address)
	}
}

// control is a net.Dialer's Control: the kernel connects to just this address
// next, so no later DNS answer can change what was checked.
func (n *Network) control(_, address string, conn syscall.RawConn) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return denied(netip.Addr{}, "it can't be read")
	}
	if err := n.guard.check(ap.Addr()); err != nil || n.Ahead == 0 {
		return err
	}
	return conn.Control(func(fd uintptr) {
		// Before the connection, whose window scale follows from it.
		_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, int(n.Ahead))
	})
}
