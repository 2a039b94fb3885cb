// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strings"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
)

// maxOpenRetries bounds how often openat2 is asked again: it answers EAGAIN
// while somebody moves folders about, which a hostile pod could do for ever.
const maxOpenRetries = 64

// OpenHostPath opens source, a folder of the node at or below the allowed
// folder root, and nothing that a symbolic link would put in its place outside
// of root. The file holds that very folder, whatever happens to its name
// afterwards: it can be mounted, see BindHostPath, and not read. Its Name is
// where it lay when it was opened.
//
// What leads to root is the operator's, and links in it are followed: nobody
// who can write there may be a pod.
func OpenHostPath(root, source string) (*os.File, error) {
	root, source = path.Clean(root), path.Clean(source)
	if !path.IsAbs(root) || !within(source, root) {
		return nil, fmt.Errorf("the node's folder %s isn't below the allowed %s: %w", source, root, errdefs.ErrPermissionDenied)
	}
	top, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, explainOpen(root, root, err)
	}
	defer unix.Close(top)
	below := strings.TrimPrefix(strings.TrimPrefix(source, root), "/")
	if below == "" {
		below = "."
	}
	fd, err := openBeneath(top, below)
	if err != nil {
		return nil, explainOpen(root, source, err)
	}
	real, err := verify(top, fd)
	if err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("the node's folder %s: %w", source, err)
	}
	return os.NewFile(uintptr(fd), real), nil
}

// CheckHostFiles refuses a folder opened by OpenHostPath that lacks a file which
// the pod wants to read. A link counts, wherever it leads: that shows in the
// container, where another mount may have its target.
func CheckHostFiles(held *os.File, names []string) error {
	for _, name := range names {
		var stat unix.Stat_t
		err := unix.Fstatat(int(held.Fd()), name, &stat, unix.AT_SYMLINK_NOFOLLOW)
		switch {
		case errors.Is(err, unix.ENOENT):
			return fmt.Errorf("the node's folder %s has no %q; put it there, or mend the URL: %w", held.Name(), name, errdefs.ErrNotFound)
		case err != nil:
			return fmt.Errorf("look for %q in the node's folder %s: %w", name, held.Name(), err)
		}
	}
	return nil
}

// openBeneath is openat2(2) below a held folder: the kernel refuses every way
// out, also one that is made while it looks.
func openBeneath(top int, below string) (int, error) {
	how := &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS,
	}
	for retry := 0; ; retry++ {
		fd, err := unix.Openat2(top, below, how)
		again := errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR)
		if !again || retry == maxOpenRetries {
			return fd, err
		}
	}
}

// verify asks the kernel where the two held folders lie now. One that was moved
// out of the other after it was opened is refused, and so is a removed one.
func verify(top, fd int) (real string, err error) {
	root, err := whereIs(top)
	if err != nil {
		return "", err
	}
	if real, err = whereIs(fd); err != nil {
		return "", err
	}
	if !within(real, root) {
		return "", fmt.Errorf("it was moved to %s, out of %s, while it was opened: %w", real, root, errdefs.ErrPermissionDenied)
	}
	return real, nil
}

// whereIs is the path of a held folder.
func whereIs(fd int) (string, error) {
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return "", fmt.Errorf("look at it: %w", err)
	}
	if stat.Nlink == 0 {
		return "", fmt.Errorf("it was removed while it was opened: %w", errdefs.ErrNotFound)
	}
	real, err := os.Readlink(procPath(fd))
	if err != nil {
		return "", fmt.Errorf("look where it lies: %w", err)
	}
	return real, nil
}

func procPath(fd int) string { return fmt.Sprintf("/proc/self/fd/%d", fd) }

// explainOpen says what an errno of openat2 means to somebody who asked for a
// host path.
func explainOpen(root, source string, err error) error {
	switch {
	case errors.Is(err, unix.ENOENT):
		return fmt.Errorf("the node has no folder %s; make it, or mend the URL: %w", source, errdefs.ErrNotFound)
	case errors.Is(err, unix.ENOTDIR):
		return fmt.Errorf("%s of the node is no folder; without `dir` a URL names a file in a folder: %w", source, errdefs.ErrInvalidArgument)
	case errors.Is(err, unix.EXDEV), errors.Is(err, unix.ELOOP):
		return fmt.Errorf("the node's folder %s has a symbolic link that leads out of the allowed %s: %w", source, root, errdefs.ErrPermissionDenied)
	case errors.Is(err, unix.EAGAIN):
		return fmt.Errorf("the node's folder %s is being moved about: %w", source, errdefs.ErrUnavailable)
	case errors.Is(err, unix.ENOSYS):
		return fmt.Errorf("host paths need Linux 5.6 or later, for openat2: %w", errdefs.ErrNotImplemented)
	default:
		return fmt.Errorf("open the node's folder %s: %w", source, err)
	}
}
