// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// tunables are what kubelet wants of the kernel and would write otherwise, for
// the whole machine and for good, kubernetes
// pkg/kubelet/cm/container_manager_linux.go:setupKernelTunables.
var tunables = map[string]string{
	"vm/overcommit_memory":      "1",
	"vm/panic_on_oom":           "0",
	"kernel/panic":              "10",
	"kernel/panic_on_oops":      "1",
	"kernel/keys/root_maxkeys":  "1000000",
	"kernel/keys/root_maxbytes": "25000000",
}

// furnish gives the namespaces what Kubernetes writes to on a machine.
func furnish() error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := overlayEtc(); err != nil {
		return fmt.Errorf("lay memory over /etc: %w", err)
	}
	if err := unix.Mount("tmpfs", "/var/log", "tmpfs", 0, "mode=0755"); err != nil {
		return fmt.Errorf("empty /var/log: %w", err)
	}
	for name, value := range tunables {
		if err := pretend(name, value); err != nil {
			return fmt.Errorf("pretend that kernel tunable %s is set: %w", name, err)
		}
	}
	return nil
}

// overlayEtc keeps what is written to /etc in memory.
func overlayEtc() error {
	upper, work := filepath.Join(dir, "etc", "upper"), filepath.Join(dir, "etc", "work")
	if err := errors.Join(os.MkdirAll(upper, 0o755), os.MkdirAll(work, 0o755)); err != nil {
		return err
	}
	return unix.Mount("overlay", "/etc", "overlay", 0, "lowerdir=/etc,upperdir="+upper+",workdir="+work)
}

// pretend puts a file with the wanted value where kubelet reads the kernel's.
func pretend(name, value string) error {
	file := filepath.Join(dir, "sys", name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(file, []byte(value+"\n"), 0o644); err != nil {
		return err
	}
	return unix.Mount(file, filepath.Join("/proc/sys", name), "", unix.MS_BIND, "")
}
