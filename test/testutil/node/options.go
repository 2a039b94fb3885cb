// SPDX-License-Identifier: Apache-2.0

package node

import (
	"path/filepath"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil/binaries"
)

// Where things are.
const (
	Dir         = "/run/sedna-test"
	KubeletRoot = Dir + "/kubelet"
	Image       = "sedna.test/workload:latest"

	pauseImage = "sedna.test/pause:latest"
	socket     = Dir + "/containerd.sock"
	// Endpoint is where containerd serves the CRI.
	Endpoint  = "unix://" + socket
	NRISocket = Dir + "/nri.sock"
	StateDir  = Dir + "/state"
	logFile   = Dir + "/containerd.log"
	// ShimSockets is where shims listen, fixed in containerd's shim library,
	// containerd pkg/shim/util_unix.go:SocketAddress.
	ShimSockets = "/run/containerd/s"
	// RunscState is where runsc keeps its containers by default, gvisor
	// pkg/shim/v1/proc/init.go:RunscRoot.
	RunscState = "/run/containerd/runsc/k8s.io"
)

// Handler names that every node has.
const (
	Sedna = "sedna" // our shim with a config.toml that only knows the paths
	Runsc = "runsc" // gVisor's own shim, for comparison
	// Deployed is Sedna by the very file that users add to containerd's
	// configuration, see deploy/.
	Deployed = "deployed"

	// NoHandler is a pod without a RuntimeClass: containerd's
	// default_runtime_name runs it, Sedna on this node.
	NoHandler = "-"
)

// Options say what a node should have beyond that.
type Options struct {
	Handlers []Handler
	// Imports are files that containerd merges into its configuration. With them
	// the handler Sedna is what they make of it.
	Imports []string
	// LogLevel of containerd, "info" by default.
	LogLevel string
	// Default is the handler of pods that name none, Sedna by default.
	Default string
	// Mirror is the address of a registry from which all images are pulled; by
	// default none can be.
	Mirror string
	// NRI lets plugins connect to NRISocket.
	NRI bool
	// Plugins are further CNI plugins, in the folder of our programs.
	Plugins []string
}

// Handler is a runtime handler of containerd.
type Handler struct {
	Name string
	// Type is the runtime type, ours by default: containerd looks for its shim
	// on PATH.
	Type string
	// Path names the shim's binary instead.
	Path string
	// Sandboxer is containerd's setting of that name, from 2.0 on.
	Sandboxer string
	// Config is the text of its config.toml, appended to the paths that every
	// test needs. Broken ones are written as they are, see Raw.
	Config string
	// Raw means that Config is the whole file.
	Raw bool
	// ConfigPath replaces the path of that file, say by one that doesn't exist.
	ConfigPath string
	// Network is that of the handler's pods, the node's own by default.
	Network *Network
}

// baseConfig comes first in each config.toml of ours.
const baseConfig = `[shim]
kubelet_root = "` + KubeletRoot + `"
`

func (h Handler) configPath() string {
	if h.ConfigPath != "" {
		return h.ConfigPath
	}
	return filepath.Join(Dir, "handlers", h.Name+".toml")
}

func (h Handler) network() Network {
	if h.Network != nil {
		return *h.Network
	}
	return mainNetwork
}

func (h Handler) runtimeType() string {
	if h.Type != "" {
		return h.Type
	}
	return "io.containerd.sedna.v1"
}

func (h Handler) config() string {
	if h.Raw {
		return h.Config
	}
	return baseConfig + h.Config
}

// handlers are the node's own and those of the test; ours is the folder of our
// programs.
func (o Options) handlers(ours string) []Handler {
	var base []Handler
	if len(o.Imports) == 0 {
		base = append(base, Handler{Name: Sedna})
	}
	base = append(base, Handler{Name: Runsc, Type: "io.containerd.runsc.v1", Path: filepath.Join(ours, binaries.GVisorShim), Raw: true})
	return append(base, o.Handlers...)
}
