// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"os"

	containerdshim "github.com/containerd/containerd/v2/pkg/shim"
)

// startedEnv holds the socket's address for a shim process that `start` has
// made, and startedFD is where it hears that `start` has come to its end.
const (
	startedEnv = "SEDNA_SHIM_ADDRESS"
	startedFD  = 4
)

// EndWithStart ends a shim process whose `start` command was killed: containerd
// does that when its caller cancels, and then knows nothing of this process and
// its socket, so nobody would ever end them. Call it first in main; in every
// other command it does nothing.
func EndWithStart() {
	address := os.Getenv(startedEnv)
	if address == "" {
		return
	}
	_ = os.Unsetenv(startedEnv) // not for runsc and the worker
	started := os.NewFile(startedFD, "started")
	// The byte is there long before this process is up.
	n, _ := started.Read(make([]byte, 1))
	_ = started.Close()
	if n == 1 {
		return
	}
	_ = containerdshim.RemoveSocket(address)
	os.Exit(1)
}
