// SPDX-License-Identifier: Apache-2.0

package ranged

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/containerd/errdefs"

	"github.com/sedna-io/containerd-shim-sedna/storage/worker"
)

func TestWhichAddressesMayBeDialled(t *testing.T) {
	host := worker.Network{Host: true}
	pod := worker.Network{Deny: []string{"10.0.0.0/8", "fd00::/8"}, Allow: []string{"10.1.0.0/16"}}
	both := worker.Network{Host: true, Deny: []string{"10.0.0.0/8"}, Allow: []string{"127.0.0.2/32"}}
	tests := []struct {
		name    string
		network worker.Network
		addr    string
		denied  bool
	}{
		{"a public address", host, "93.184.216.34", false},
		{"a private address is the cluster's business", host, "192.168.1.1", false},
		{"loopback", host, "127.0.0.1", true},
		{"all of loopback", host, "127.9.9.9", true},
		{"loopback of IPv6", host, "::1", true},
		{"loopback mapped into IPv6", host, "::ffff:127.0.0.1", true},
		{"loopback compatible with IPv6", host, "::127.0.0.1", true},
		{"loopback behind NAT64", host, "64:ff9b::7f00:1", true},
		{"metadata behind 6to4", host, "2002:a9fe:a9fe::1", true},
		{"unspecified is loopback on Linux", host, "0.0.0.0", true},
		{"unspecified of IPv6", host, "::", true},
		{"a cloud's metadata", host, "169.254.169.254", true},
		{"a cloud's metadata mapped", host, "::ffff:169.254.169.254", true},
		{"AWS's metadata over IPv6", host, "fd00:ec2::254", true},
		{"link-local of IPv6", host, "fe80::1%eth0", true},
		{"multicast", host, "224.0.0.1", true},
		{"multicast of IPv6", host, "ff02::1", true},
		{"broadcast", host, "255.255.255.255", true},
		{"loopback of a pod's own network", pod, "127.0.0.1", false},
		{"link-local of a pod's own network", pod, "169.254.1.1", false},
		{"a cloud's metadata, in a pod's network", pod, "169.254.169.254", true},
		{"the same over IPv6", pod, "fd00:ec2::254", true},
		{"what the node denies, in a pod's network", pod, "10.2.3.4", true},
		{"what the node denies, mapped", pod, "::ffff:10.2.3.4", true},
		{"what the node allows wins", pod, "10.1.3.4", false},
		{"an IPv6 range", pod, "fd12::1", true},
		{"an allowed loopback address", both, "127.0.0.2", false},
		{"its neighbour", both, "127.0.0.3", true},
		{"the node's own list beside ours", both, "10.9.9.9", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g, err := newGuard(tt.network)
			if err != nil {
				t.Fatal(err)
			}
			err = g.check(netip.MustParseAddr(tt.addr))
			if (err != nil) != tt.denied {
				t.Fatalf("%s: error is %v, denied should be %v", tt.addr, err, tt.denied)
			}
			if err != nil && !errors.Is(err, errdefs.ErrPermissionDenied) {
				t.Errorf("the error's kind is wrong: %v", err)
			}
		})
	}
}

func TestBadCIDRsAreNamed(t *testing.T) {
	for _, n := range []worker.Network{{Deny: []string{"10.0.0.0"}}, {Allow: []string{"x"}}} {
		if _, err := newGuard(n); !errors.Is(err, errdefs.ErrInvalidArgument) {
			t.Errorf("error is %v", err)
		}
	}
}

func TestWhichHostsMayBeAskedFor(t *testing.T) {
	g, err := newGuard(worker.Network{Deny: []string{"10.0.0.0/8"}})
	if err != nil {
		t.Fatal(err)
	}
	for host, denied := range map[string]bool{
		"example.com": false, "example.com.": false, "192.168.1.1": false, "2001:db8::1": false,
		"a1": false, "model-7b": false, "1.2.3.4.in-addr.arpa": false, "0xmodels": false, "": false,
		"169.254.169.254": true, "169.254.169.254.": true, "::ffff:a9fe:a9fe": true, "fd00:ec2::254": true, "10.1.2.3": true,
		"2852039166": true, "0251.0376.0251.0376": true, "0xa9.0xfe.0xa9.0xfe": true, "0xA9FEA9FE": true, "169.254.43518": true, "169.0xfea9fe.": true,
	} {
		err := g.checkHost(host)
		if (err != nil) != denied || err != nil && !errors.Is(err, errdefs.ErrPermissionDenied) {
			t.Errorf("%q: %v", host, err)
		}
	}
}
