// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// newRoot stands in for Landlock: a mount namespace whose root is a small tmpfs
// with nothing on it but the volume and the files that a worker reads, each at
// its own path. It's the second choice, since the volume is another mount there
// than the node's cache: nothing can be linked between them, only copied.
func (p Place) newRoot(self string) error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("make a mount namespace: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := mountTmpfs(); err != nil {
		return err
	}
	const readOnly = unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	if err := bind(self, readOnly&^unix.MS_NOEXEC); err != nil {
		return err
	}
	for _, list := range [][]string{readable, rootFiles, rootFolders} {
		for _, path := range list {
			if err := bind(path, readOnly); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	if linked(self) {
		for _, path := range libraries {
			if err := bind(path, readOnly&^unix.MS_NOEXEC); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	if p.Volume != "" {
		if err := bind(p.Volume, readOnly&^unix.MS_RDONLY); err != nil {
			return err
		}
	}
	return pivot()
}

// scratch is where tmpfs are mounted for a moment in a namespace of our own:
// every node has that folder, and nothing there is needed meanwhile.
const scratch = "/sys"

func mountTmpfs() error {
	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	if err := unix.Mount("tmpfs", scratch, "tmpfs", flags, "size=64k,mode=755"); err != nil {
		return fmt.Errorf("mount a tmpfs: %w", err)
	}
	return nil
}

// bind mounts what is at path, through links, at the same path below scratch.
func bind(path string, flags uintptr) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	target := filepath.Join(scratch, path)
	if info.IsDir() {
		err = os.MkdirAll(target, 0o755)
	} else if err = os.MkdirAll(filepath.Dir(target), 0o755); err == nil {
		err = os.WriteFile(target, nil, 0o644)
	}
	if err == nil {
		err = unix.Mount(path, target, "", unix.MS_BIND, "")
	}
	if err == nil {
		err = unix.Mount("", target, "", unix.MS_BIND|unix.MS_REMOUNT|flags, "")
	}
	if err != nil {
		return fmt.Errorf("show the worker %s: %w", path, err)
	}
	return nil
}

// pivot makes the tmpfs the root, read-only, and lets go of the old one.
func pivot() error {
	if err := unix.Chdir(scratch); err != nil {
		return err
	}
	// The old root lands on top of the new: pivot_root(2), NOTES.
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("change the root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("let go of the node's root: %w", err)
	}
	if err := unix.Chdir("/"); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV, ""); err != nil {
		return fmt.Errorf("make the root read-only: %w", err)
	}
	return nil
}
