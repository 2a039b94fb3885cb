// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"os"

	"github.com/sedna-io/containerd-shim-sedna/storage/worker"
)

// Process names one process of the machine.
type Process struct {
	worker.Process
	// Space is the PID namespace in which PID counts.
	Space string `json:"space"`
}

// Self names the calling process.
func Self() (Process, error) {
	p, err := worker.ProcessOf(os.Getpid())
	if err != nil {
		return Process{}, err
	}
	space, err := pidSpace()
	return Process{p, space}, err
}

// gone says for sure that the process has ended. From another PID namespace
// that can't be seen.
func (p Process) gone() bool {
	space, err := pidSpace()
	return err == nil && space == p.Space && !p.Runs()
}

func pidSpace() (string, error) { return os.Readlink("/proc/self/ns/pid") }
