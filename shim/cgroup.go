// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/sedna-io/containerd-shim-sedna/shim/bundle"
)

// cgroupRoot is where the kernel's control groups are mounted; a test has its own.
var cgroupRoot = "/sys/fs/cgroup"

// removeCgroup removes the control group that runsc made for a container and
// forgets when its sandbox died first: then runsc's delete fails before it gets
// there. Only empty groups of this very container go. systemd's own groups
// (slice:prefix:name) go by themselves.
func removeCgroup(b *bundle.Bundle, id string) error {
	if b.Spec.Linux == nil {
		return nil
	}
	path := filepath.Clean(b.Spec.Linux.CgroupsPath)
	if !filepath.IsAbs(path) || filepath.Base(path) != id {
		return nil
	}
	controllers, err := os.ReadDir(cgroupRoot)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("look for control groups: %w", err)
	}
	roots := []string{cgroupRoot} // version 2, and one for each controller of version 1
	for _, c := range controllers {
		if c.IsDir() {
			roots = append(roots, filepath.Join(cgroupRoot, c.Name()))
		}
	}
	for _, root := range roots {
		err := unix.Rmdir(filepath.Join(root, path))
		if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTDIR) && !errors.Is(err, unix.EBUSY) && !errors.Is(err, unix.ENOTEMPTY) {
			return fmt.Errorf("remove the container's control group: %w", err)
		}
	}
	return nil
}
