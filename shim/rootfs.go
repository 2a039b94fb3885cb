// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	taskapi "github.com/containerd/containerd/api/runtime/task/v2"
	"github.com/containerd/containerd/v2/core/mount"
	"golang.org/x/sys/unix"

	"github.com/sedna-io/containerd-shim-sedna/shim/bundle"
	"github.com/sedna-io/containerd-shim-sedna/volumes"
)

// emptyFile in a container's bundle is what it sees in place of a masked file.
const emptyFile = "sedna-empty"

// protect makes mounts of the container's masked and read-only paths. To know what
// is at a path it mounts the root file system in place of gVisor's service, which
// otherwise comes too late for that, and only if there's a path to look at.
func protect(ctx context.Context, t *touching, r *taskapi.CreateTaskRequest, b *bundle.Bundle) (notes []string, err error) {
	if !volumes.WantsProtection(b.Spec) {
		return nil, nil
	}
	empty := filepath.Join(b.Dir, emptyFile)
	if err := os.WriteFile(empty, nil, 0o444); err != nil {
		return nil, fmt.Errorf("make the file that masks others: %w", err)
	}
	t.now("the container's root file system")
	defer func() {
		if ctx.Err() != nil {
			// Create may have given this up, and cleaned up before there was a mount.
			notes, err = nil, errors.Join(context.Cause(ctx), unmountRootFS(r.Bundle))
			return
		}
		t.now("")
	}()
	root, err := openRootFS(r, b)
	if err != nil {
		return nil, err
	}
	defer root.dir.Close()
	return volumes.Protect(b.Spec, root, empty)
}

// rootFS is a root file system that is held open.
type rootFS struct {
	dir  *os.File
	path string
}

// openRootFS opens the container's root file system, mounted where gVisor's
// service would do it (gvisor pkg/shim/v1/runsc/container.go:NewContainer) and
// unmounts it at the end. There's nothing left to mount for it in r then: a
// second mount of the same snapshot can be refused (overlayfs' volatile).
func openRootFS(r *taskapi.CreateTaskRequest, b *bundle.Bundle) (*rootFS, error) {
	path := rootFSDir(r.Bundle)
	if len(r.Rootfs) == 0 && b.Spec.Root != nil && filepath.IsAbs(b.Spec.Root.Path) {
		path = b.Spec.Root.Path // ctr run --rootfs
	}
	if err := os.Mkdir(path, 0o711); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("make the folder of the root file system: %w", err)
	}
	for len(r.Rootfs) > 0 {
		next := r.Rootfs[0]
		m := mount.Mount{Type: next.Type, Source: next.Source, Options: next.Options}
		if err := m.Mount(path); err != nil {
			return nil, fmt.Errorf("mount the root file system: %w", err)
		}
		r.Rootfs = r.Rootfs[1:]
	}
	dir, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open the root file system: %w", err)
	}
	return &rootFS{dir: dir, path: path}, nil
}

func rootFSDir(bundle string) string { return filepath.Join(bundle, "rootfs") }

// unmountRootFS takes back what openRootFS may have mounted for a container that
// gVisor's service never heard of. It looks at nothing there, and waits for
// nobody: the file system may be what hangs.
func unmountRootFS(bundle string) error {
	for {
		err := unix.Unmount(rootFSDir(bundle), unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		switch {
		case errors.Is(err, unix.EINTR), err == nil: // there may be one below
		case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOENT):
			return nil
		default:
			return fmt.Errorf("unmount the root file system: %w", err)
		}
	}
}

// lookups is how often a path is looked up that the kernel can't be sure of: with
// a ".." in a link it may say so whenever anything is mounted or renamed on the
// node meanwhile (openat2(2), EAGAIN).
const lookups = 128

// openInside opens path inside of dir, as if that were the root.
func openInside(dir *os.File, path string) (fd int, err error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	for range lookups {
		fd, err = unix.Openat2(int(dir.Fd()), path, &how)
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
			break
		}
	}
	return fd, err
}

// Lookup implements volumes.RootFS. The image is a stranger's: the kernel keeps
// its links inside of it.
func (r *rootFS) Lookup(path string) (volumes.Found, error) {
	fd, err := openInside(r.dir, path)
	if errors.Is(err, unix.ENOTDIR) {
		err = unix.ENOENT
	}
	if err != nil {
		return volumes.Found{}, &os.PathError{Op: "open", Path: path, Err: err}
	}
	file := os.NewFile(uintptr(fd), path)
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return volumes.Found{}, err
	}
	host, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", file.Fd()))
	if err != nil {
		return volumes.Found{}, err
	}
	top, err := filepath.EvalSymlinks(r.path)
	if err != nil {
		return volumes.Found{}, err
	}
	inside, ok := strings.CutPrefix(host, top)
	if !ok || inside != "" && inside[0] != '/' {
		return volumes.Found{}, fmt.Errorf("%s is at %s, outside of the root file system", path, host)
	}
	return volumes.Found{Path: filepath.Clean("/" + inside), Host: filepath.Join(r.path, inside), Dir: info.IsDir()}, nil
}
