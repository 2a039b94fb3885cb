// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"

	"github.com/vishvananda/netlink"
)

// The pod network. The node has it to itself, so the numbers are fixed.
const (
	bridge  = "sedna0"
	Address = "10.89.0.1" // of the node, as pods see it
	// Neighbour is the last that a pod would get, see AddAddress.
	Neighbour = "10.89.255.254"
)

// Network is a pod network beside that of all other handlers.
type Network struct {
	Bridge  string // interface on the node
	Address string // of the node, as pods there see it: the first of a /16
	// Chained is a CNI plugin that comes after the bridge, as JSON; "" for none.
	Chained string
}

var mainNetwork = Network{Bridge: bridge, Address: Address}

// confDir is where containerd finds the network's configuration.
func (w Network) confDir() string { return filepath.Join(Dir, "cni", w.Bridge) }

// ipamDir is where the network's addresses are given out, by network name.
const ipamDir = Dir + "/ipam"

func (w Network) config() string {
	chained := ""
	if w.Chained != "" {
		chained = ", " + w.Chained
	}
	return fmt.Sprintf(`{
  "cniVersion": "1.0.0",
  "name": %[1]q,
  "plugins": [{
    "type": "bridge",
    "bridge": %[1]q,
    "isGateway": true,
    "ipam": {
      "type": "host-local",
      "ranges": [[{"subnet": %[2]q, "gateway": %[3]q}]],
      "routes": [{"dst": "0.0.0.0/0"}],
      "dataDir": %[4]q
    }
  }%[5]s]
}
`, w.Bridge, w.prefix().Masked(), w.Address, ipamDir, chained)
}

func (w Network) prefix() netip.Prefix {
	return netip.PrefixFrom(netip.MustParseAddr(w.Address), 16)
}

// make makes the bridge now, not with the first pod: servers listen on its
// address.
func (w Network) make() error {
	link := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: w.Bridge}}
	if err := netlink.LinkAdd(link); err != nil {
		return fmt.Errorf("add bridge %s: %w", w.Bridge, err)
	}
	address, err := netlink.ParseAddr(w.prefix().String())
	if err != nil {
		return err
	}
	if err := netlink.AddrAdd(link, address); err != nil {
		return fmt.Errorf("give bridge %s an address: %w", w.Bridge, err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("bring bridge %s up: %w", w.Bridge, err)
	}
	return writeFile(filepath.Join(w.confDir(), "10-"+w.Bridge+".conflist"), w.config())
}

func (w Network) remove() error {
	link, err := netlink.LinkByName(w.Bridge)
	if err != nil {
		return nil //nolint:nilerr // it was never made
	}
	if err := netlink.LinkDel(link); err != nil {
		return fmt.Errorf("remove bridge %s: %w", w.Bridge, err)
	}
	return nil
}

// networks are the node's own and those of the test.
func (o Options) networks() []Network {
	all := []Network{mainNetwork}
	for _, h := range o.Handlers {
		if h.Network != nil && !slices.Contains(all, *h.Network) { // handlers may share one
			all = append(all, *h.Network)
		}
	}
	return all
}

// AddAddress gives the bridge one more address until remove is called.
func AddAddress(address string) (remove func(), err error) {
	link, err := netlink.LinkByName(bridge)
	if err != nil {
		return nil, fmt.Errorf("find the bridge: %w", err)
	}
	parsed, err := netlink.ParseAddr(address + "/16")
	if err != nil {
		return nil, err
	}
	if err := netlink.AddrAdd(link, parsed); err != nil {
		return nil, fmt.Errorf("give the bridge another address: %w", err)
	}
	return func() { _ = netlink.AddrDel(link, parsed) }, nil
}

// links are the network interfaces of the node.
func links() (map[string]bool, error) {
	all, err := netlink.LinkList()
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, link := range all {
		names[link.Attrs().Name] = true
	}
	return names, nil
}
