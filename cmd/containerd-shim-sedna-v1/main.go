// SPDX-License-Identifier: Apache-2.0

// Command containerd-shim-sedna-v1 is a containerd runtime-v2 shim for gVisor
// that brings a pod's models and data sets before the pod starts.
package main

import (
	"context"

	containerdshim "github.com/containerd/containerd/v2/pkg/shim"

	"github.com/sedna-io/containerd-shim-sedna/shim"
)

func main() {
	shim.EndWithStart()
	shim.Register()
	containerdshim.Run(context.Background(), shim.NewManager("io.containerd.sedna.v1"))
}
