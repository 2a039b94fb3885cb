// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// BindHostPath mounts the folder that held holds at target, which is made if
// it isn't there. target must lie where only root can write. From then on the
// container's mount has target as its source: a name that no pod can turn into
// another folder, while the folder's own name may be.
//
// The mount has nosuid and nodev, and ro if readOnly, with all that is mounted
// below it. It stays until ReleaseHostPath: never remove target's folder with
// its contents before.
func BindHostPath(held *os.File, target string, readOnly bool) error {
	if err := os.MkdirAll(target, 0o700); err != nil {
		return fmt.Errorf("make the place of a host path: %w", err)
	}
	tree, err := unix.OpenTree(int(held.Fd()), "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH|unix.AT_RECURSIVE)
	if err != nil {
		return fmt.Errorf("take the node's folder %s to mount it: %w", held.Name(), err)
	}
	defer unix.Close(tree)
	// A slave lets go of a disk below it when the node unmounts that disk.
	attr := &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV, Propagation: unix.MS_SLAVE}
	if readOnly {
		attr.Attr_set |= unix.MOUNT_ATTR_RDONLY
	}
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, attr); err != nil {
		return fmt.Errorf("restrict the mount of the node's folder %s: %w", held.Name(), err)
	}
	if err := unix.MoveMount(tree, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("mount the node's folder %s: %w", held.Name(), err)
	}
	return nil
}

// ReleaseHostPath unmounts what BindHostPath mounted at target and removes the
// empty folder. It may run again, and on a target that was never mounted.
func ReleaseHostPath(target string) error {
	for {
		err := unix.Unmount(target, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) { // not, or no more, a mount
			break
		}
		if err != nil {
			return fmt.Errorf("unmount a host path: %w", err)
		}
	}
	if err := unix.Rmdir(target); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the place of a host path: %w", err)
	}
	return nil
}
