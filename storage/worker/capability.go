// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// kept are the capabilities of a worker. Volumes may belong to others and be
// closed to everybody else, like one of user 1000 and mode 2770; all that root
// makes there is its own, so that nothing else is needed.
const kept = 1 << unix.CAP_DAC_OVERRIDE

// dropCapabilities takes all but the kept ones from the calling thread, and the
// way to get them back. Going down never clears the parent-death signal, as
// every other change of credentials does.
func dropCapabilities() error {
	for c := uintptr(0); ; c++ {
		if kept&(uint64(1)<<c) != 0 {
			continue
		}
		err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		if errors.Is(err, unix.EINVAL) {
			break // beyond the last that this kernel has
		}
		if err != nil {
			return fmt.Errorf("drop capability %d for good: %w", c, err)
		}
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var have [2]unix.CapUserData
	if err := unix.Capget(&header, &have[0]); err != nil {
		return fmt.Errorf("read capabilities: %w", err)
	}
	for i := range have {
		permitted := have[i].Permitted & uint32(uint64(kept)>>(32*i))
		have[i] = unix.CapUserData{Effective: permitted, Permitted: permitted}
	}
	// Ambient ones go with the inheritable.
	if err := unix.Capset(&header, &have[0]); err != nil {
		return fmt.Errorf("set capabilities: %w", err)
	}
	return nil
}
