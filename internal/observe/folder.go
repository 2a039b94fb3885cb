// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// folder is an open folder. Everything in it is named by one component, and a
// link there is never followed: others may write some of these folders.
type folder struct{ *os.File }

// openFolder opens a folder by its path; flags may add unix.O_NOFOLLOW.
func openFolder(path string, flags int) (folder, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY|flags, 0)
	return folder{f}, err
}

// sub opens a folder below, and makes it if need be.
func (d folder) sub(name string, perm uint32) (folder, error) {
	if err := unix.Mkdirat(int(d.Fd()), name, perm); err != nil && !errors.Is(err, unix.EEXIST) {
		return folder{}, &os.PathError{Op: "mkdir", Path: d.path(name), Err: err}
	}
	f, err := d.openat(name, os.O_RDONLY|unix.O_DIRECTORY, 0)
	return folder{f}, err
}

// open opens a regular file that has no other name: with a second one, writing
// here would write elsewhere.
func (d folder) open(name string, flags int, perm uint32) (*os.File, error) {
	f, err := d.openat(name, flags|unix.O_NONBLOCK, perm) // a pipe must not make us wait
	if err != nil {
		return nil, err
	}
	var stat unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &stat); err != nil {
		_ = f.Close()
		return nil, &os.PathError{Op: "stat", Path: d.path(name), Err: err}
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFREG || stat.Nlink != 1 {
		_ = f.Close()
		return nil, fmt.Errorf("%s is no regular file with one name", d.path(name))
	}
	return f, nil
}

func (d folder) openat(name string, flags int, perm uint32) (*os.File, error) {
	for {
		fd, err := unix.Openat(int(d.Fd()), name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, perm)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return nil, &os.PathError{Op: "open", Path: d.path(name), Err: err}
		default:
			return os.NewFile(uintptr(fd), d.path(name)), nil
		}
	}
}

// read reads a file, at most the last of it.
func (d folder) read(name string, last int64) ([]byte, error) {
	f, err := d.open(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if from := info.Size() - last; from > 0 {
		if _, err := f.Seek(from, io.SeekStart); err != nil {
			return nil, err
		}
	}
	return io.ReadAll(io.LimitReader(f, last))
}

// replace gives a file new content, whole or not at all. One process at a time
// may do that for a name.
func (d folder) replace(name string, data []byte, perm uint32) error {
	beside := "." + name + ".tmp"
	if err := d.remove(beside); err != nil { // of a process that was killed
		return err
	}
	f, err := d.openat(beside, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Chmod(os.FileMode(perm)), f.Close()); err == nil {
		err = d.rename(beside, name)
	}
	if err != nil {
		return errors.Join(err, d.remove(beside))
	}
	return nil
}

func (d folder) rename(from, to string) error {
	if err := unix.Renameat(int(d.Fd()), from, int(d.Fd()), to); err != nil {
		return &os.LinkError{Op: "rename", Old: d.path(from), New: to, Err: err}
	}
	return nil
}

// remove removes a file, if there is one.
func (d folder) remove(name string) error {
	if err := unix.Unlinkat(int(d.Fd()), name, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return &os.PathError{Op: "remove", Path: d.path(name), Err: err}
	}
	return nil
}

// lock waits until no other process holds the folder's lock. It protects
// nothing from those who don't ask for it, and ends with the folder's Close.
func (d folder) lock() error {
	for {
		err := unix.Flock(int(d.Fd()), unix.LOCK_EX)
		if !errors.Is(err, unix.EINTR) {
			return os.NewSyscallError("flock", err)
		}
	}
}

func (d folder) path(name string) string { return d.Name() + "/" + name }
