// SPDX-License-Identifier: Apache-2.0

// Package integration holds the tests of the whole: a real containerd, the
// real shim and worker, a real runsc, and servers to download from.
package integration

import (
	"path/filepath"
	"testing"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/binaries"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/node"
)

// Runtime handlers beside those of every node.
const (
	malformed   = "malformed"    // config.toml isn't TOML
	unknownKey  = "unknown-key"  // config.toml has a key that nobody knows
	wrongType   = "wrong-type"   // config.toml has a value of the wrong kind
	noConfig    = "no-config"    // config.toml doesn't exist
	hasty       = "hasty"        // gives up one second before a deadline
	tight       = "tight"        // gives workers little memory
	nodeNetwork = "node-network" // downloads through the node's network
	autoHints   = "auto-hints"   // hints every emptyDir
	anyRoot     = "any-root"     // doesn't say where kubelet's root is
	linkedRoot  = "linked-root"  // says a symbolic link
	oneByOne    = "one-by-one"   // downloads for one pod at a time
	configured  = "configured"   // config.toml is written by each test that uses it
	noRunsc     = "no-runsc"     // config.toml names a runsc that isn't there
	byPath      = "by-path"      // runtime_path names the shim, and PATH needn't have it
	sandboxAPI  = "sandbox-api"  // sandboxer = "shim"
	untrusted   = "untrusted"    // containerd's own name: it runs pods that an annotation calls so
	otherwise   = "elsewhere"    // pods have another network than all others
	policed     = "policed"      // pods have a network with policies
	recommended = "recommended"  // config.toml is the one in deploy/
)

// The networks of the last two.
var (
	otherNetwork = node.Network{Bridge: "sedna1", Address: "10.90.0.1"}
	withPolicies = node.Network{
		Bridge: "sedna2", Address: "10.91.0.1",
		Chained: `{"type": "policy", "capabilities": {"io.kubernetes.cri.pod-annotations": true}}`,
	}
)

// shimPath is our shim as these tests have built it.
func shimPath() string {
	ours, _, err := binaries.Dirs()
	if err != nil {
		panic(err)
	}
	return filepath.Join(ours, binaries.Shim)
}

func TestMain(m *testing.M) {
	deploy, err := filepath.Abs("../../deploy/config.toml")
	if err != nil {
		panic(err)
	}
	testutil.Main(m, node.Options{Handlers: []node.Handler{
		{Name: malformed, Raw: true, Config: "[storage]\nworker = = 1\n"},
		{Name: unknownKey, Raw: true, Config: "[storage]\nmax_worker = 3\n"},
		{Name: wrongType, Raw: true, Config: "[storage]\n\nmax_workers = \"many\"\n"},
		{Name: noConfig, ConfigPath: node.Dir + "/handlers/absent.toml"},
		{Name: hasty, Config: "deadline_margin = \"1s\"\n"},
		{Name: tight, Config: "[storage.limits]\nmemory = \"64MiB\"\n"},
		{Name: nodeNetwork, Config: "[storage]\nnetwork = \"host\"\n"},
		{Name: autoHints, Config: "[volumes]\nempty_dir = \"auto\"\n"},
		{Name: anyRoot, Raw: true},
		{Name: linkedRoot, Raw: true, Config: "[shim]\nkubelet_root = \"" + rootLink + "\"\n"},
		{Name: oneByOne, Config: "[storage]\nmax_workers = 1\n"},
		{Name: configured},
		{Name: untrusted},
		{Name: sandboxAPI, Sandboxer: "shim"},
		{Name: otherwise, Network: &otherNetwork},
		{Name: policed, Config: "deadline_margin = \"1s\"\n", Network: &withPolicies},
		{Name: noRunsc, Raw: true, Config: "binary_name = \"runsc-elsewhere\"\n"},
		{Name: byPath, Path: shimPath()},
		{Name: recommended, ConfigPath: deploy},
	}})
}
