// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"path/filepath"

	"github.com/vishvananda/netlink"
)

// The pod network. The node has it to itself, so the numbers are fixed.
const (
	bridge  = "sedna0"
	subnet  = "10.89.0.0/16"
	Address = "10.89.0.1" // of the node, as pods see it
	// Neighbour is the last that a pod would get, see AddAddress.
	Neighbour = "10.89.255.254"
)

const cniConfig = `{
  "cniVersion": "1.0.0",
  "name": "sedna",
  "plugins": [{
    "type": "bridge",
    "bridge": "` + bridge + `",
    "isGateway": true,
    "ipam": {
      "type": "host-local",
      "ranges": [[{"subnet": "` + subnet + `", "gateway": "` + Address + `"}]],
      "routes": [{"dst": "0.0.0.0/0"}],
      "dataDir": "` + Dir + `/ipam"
    }
  }%s]
}
`

// hostPorts is a chained plugin that hears of pods' host ports.
const hostPorts = `, {"type": %q, "capabilities": {"portMappings": true}}`

// writeNetwork makes the bridge now, not with the first pod: servers listen on
// its address.
func writeNetwork(opts Options) error {
	link := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: bridge}}
	if err := netlink.LinkAdd(link); err != nil {
		return fmt.Errorf("add bridge: %w", err)
	}
	address, err := netlink.ParseAddr(Address + "/16")
	if err != nil {
		return err
	}
	if err := netlink.AddrAdd(link, address); err != nil {
		return fmt.Errorf("give the bridge an address: %w", err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("bring the bridge up: %w", err)
	}
	chained := ""
	if opts.HostPorts != "" {
		chained = fmt.Sprintf(hostPorts, opts.HostPorts)
	}
	return writeFile(filepath.Join(Dir, "cni", "10-sedna.conflist"), fmt.Sprintf(cniConfig, chained))
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

func removeNetwork() error {
	link, err := netlink.LinkByName(bridge)
	if err != nil {
		return nil //nolint:nilerr // it was never made
	}
	if err := netlink.LinkDel(link); err != nil {
		return fmt.Errorf("remove bridge: %w", err)
	}
	return nil
}
