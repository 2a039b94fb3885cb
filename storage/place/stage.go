// SPDX-License-Identifier: Apache-2.0

package place

import (
	"errors"
	"fmt"
	"os"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
)

// Create makes an empty file in .sedna, instead of one that's there.
func (t *Tree) Create(name string) (*os.File, error) {
	const flags = unix.O_RDWR | unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW
	f, err := openat(t.staging, name, flags, fileMode)
	if errors.Is(err, unix.EEXIST) {
		if err = t.Discard(name); err == nil {
			f, err = openat(t.staging, name, flags, fileMode)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("create a partial file: %w", err)
	}
	if err := setMode(f, fileMode); err != nil {
		f.Close()
		return nil, fmt.Errorf("set a partial file's mode: %w", err)
	}
	return f, nil
}

// Reopen opens a file of .sedna for reading and writing, if it is a plain one
// of ours with no second name; else fs.ErrNotExist.
func (t *Tree) Reopen(name string) (*os.File, error) {
	f, err := openat(t.staging, name, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, os.ErrNotExist
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd(f), &st); err != nil ||
		st.Mode&unix.S_IFMT != unix.S_IFREG || st.Nlink != 1 || int(st.Uid) != os.Geteuid() {
		f.Close()
		return nil, os.ErrNotExist
	}
	return f, nil
}

// Discard removes a file of .sedna; one that isn't there is fine.
func (t *Tree) Discard(name string) error {
	err := unix.Unlinkat(fd(t.staging), name, 0)
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove a partial file: %w", err)
	}
	return nil
}

// Staged lists the names in .sedna.
func (t *Tree) Staged() ([]string, error) {
	d, err := openat(t.staging, ".", openDir, 0)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Readdirnames(-1)
}

// placeFor opens the folder that a path's last name goes into, and makes what is
// missing of it. The caller may use it until it calls done.
func (t *Tree) placeFor(p string) (dir *os.File, name string, done func(), err error) {
	if err := CheckPath(p); err != nil {
		return nil, "", nil, err
	}
	parent, name := split(p)
	dir, done, err = t.folder(parent)
	return dir, name, done, err
}

// Publish gives a staged file its final path, in place of a file that has it.
func (t *Tree) Publish(staged, p string) error {
	dir, name, done, err := t.placeFor(p)
	if err != nil {
		return err
	}
	defer done()
	switch err := unix.Renameat(fd(t.staging), staged, fd(dir), name); {
	case errors.Is(err, unix.EISDIR):
		return fmt.Errorf("place %q: a folder has that name: %w", p, errdefs.ErrAlreadyExists)
	case err != nil:
		return fmt.Errorf("place %q: %w", p, err)
	}
	return nil
}

// Mkdir makes a folder and those above it.
func (t *Tree) Mkdir(p string) error {
	if err := CheckPath(p); err != nil {
		return err
	}
	_, done, err := t.folder(p)
	if err != nil {
		return err
	}
	done()
	return nil
}

// Executable marks an open file so.
func Executable(f *os.File) error { return unix.Fchmod(fd(f), execMode) }

// Info is what tells a placed file from another that took its name.
type Info struct {
	Size  int64
	MTime int64 // ns
	Inode uint64
}

// Allocated is how many bytes an open file takes on the disk.
func Allocated(f *os.File) int64 {
	var st unix.Stat_t
	if unix.Fstat(fd(f), &st) != nil {
		return 0
	}
	return st.Blocks * 512 // its unit, whatever the file system's: stat(2)
}

// InfoOf describes an open file.
func InfoOf(f *os.File) (Info, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd(f), &st); err != nil {
		return Info{}, fmt.Errorf("look at a file: %w", err)
	}
	return info(&st), nil
}

func info(st *unix.Stat_t) Info { return Info{st.Size, st.Mtim.Nano(), st.Ino} }

// Stat describes the plain file at a path; fs.ErrNotExist is everything else.
func (t *Tree) Stat(p string) (Info, error) {
	if err := CheckPath(p); err != nil {
		return Info{}, err
	}
	parent, name := split(p)
	dir, done, err := t.existing(parent)
	if err != nil {
		return Info{}, os.ErrNotExist
	}
	defer done()
	var st unix.Stat_t
	if err := unix.Fstatat(fd(dir), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return Info{}, os.ErrNotExist
	}
	return info(&st), nil
}

// Remove takes a placed file away, if it is there.
func (t *Tree) Remove(p string) error {
	if err := CheckPath(p); err != nil {
		return err
	}
	parent, name := split(p)
	dir, done, err := t.existing(parent)
	if err != nil {
		return nil
	}
	defer done()
	if err := unix.Unlinkat(fd(dir), name, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove %q: %w", p, err)
	}
	return nil
}

// Sync makes everything in the volume's file system last.
func (t *Tree) Sync() error {
	if err := unix.Syncfs(fd(t.root)); err != nil {
		return fmt.Errorf("sync the volume: %w", err)
	}
	return nil
}

// LinkStaged gives a file of .sedna a second name there.
func (t *Tree) LinkStaged(old, name string) error {
	if err := t.Discard(name); err != nil {
		return err
	}
	if err := unix.Linkat(fd(t.staging), old, fd(t.staging), name, 0); err != nil {
		return fmt.Errorf("link an unpacked file: %w", err)
	}
	return nil
}

// Symlink makes a link at a path, in place of a file or link that has it.
// Whether the target is a good one is for the caller to know.
func (t *Tree) Symlink(target, p string) error {
	dir, name, done, err := t.placeFor(p)
	if err != nil {
		return err
	}
	defer done()
	err = unix.Symlinkat(target, fd(dir), name)
	if errors.Is(err, unix.EEXIST) {
		if err = unix.Unlinkat(fd(dir), name, 0); err == nil {
			err = unix.Symlinkat(target, fd(dir), name)
		}
	}
	switch {
	case errors.Is(err, unix.EISDIR), errors.Is(err, unix.EPERM):
		return fmt.Errorf("place the link %q: a folder has that name: %w", p, errdefs.ErrAlreadyExists)
	case err != nil:
		return fmt.Errorf("place the link %q: %w", p, err)
	}
	return nil
}
