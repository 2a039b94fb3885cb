// SPDX-License-Identifier: Apache-2.0

package place

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
)

const (
	fileMode   = 0o644
	execMode   = 0o755
	dirMode    = 0o755
	folderMode = 0o700
	maxHeld    = 256 // folders held open at once

	openDir = unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC | unix.O_RDONLY
)

// Tree is a volume, held open. Its methods may run side by side.
type Tree struct {
	root    *os.File
	staging *os.File
	// OnFolder is asked before a folder is made; nil allows all. It is set
	// before the first use.
	OnFolder func() error

	mu   sync.Mutex
	held map[string]*os.File // open folders by path; guarded by mu, a cache
}

// Open holds the volume and makes its .sedna folder.
func Open(root *os.Root) (*Tree, error) {
	dir, err := root.Open(".")
	if err != nil {
		return nil, fmt.Errorf("open the volume: %w", err)
	}
	t := &Tree{root: dir, held: map[string]*os.File{}}
	if t.staging, err = openFolder(dir); err != nil {
		dir.Close()
		return nil, fmt.Errorf("make the volume's folder %s: %w", Folder, err)
	}
	return t, nil
}

// Close lets go of everything.
func (t *Tree) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, d := range t.held {
		d.Close()
	}
	clear(t.held)
	t.staging.Close()
	t.root.Close()
}

// Root is the volume's folder, for statfs.
func (t *Tree) Root() *os.File { return t.root }

// openFolder makes .sedna or takes the one that is there, if it is ours: a
// folder of this user that nobody else may write.
func openFolder(root *os.File) (*os.File, error) {
	err := unix.Mkdirat(fd(root), Folder, folderMode)
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return nil, err
	}
	dir, err := openat(root, Folder, openDir, 0)
	if err != nil {
		return nil, fmt.Errorf("something else stands there: %w", err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd(dir), &st); err != nil {
		dir.Close()
		return nil, err
	}
	if int(st.Uid) != os.Geteuid() {
		dir.Close()
		return nil, fmt.Errorf("it belongs to user %d: %w", st.Uid, errdefs.ErrPermissionDenied)
	}
	if st.Mode&0o777 != folderMode {
		if err := unix.Fchmod(fd(dir), folderMode|st.Mode&unix.S_ISGID); err != nil {
			dir.Close()
			return nil, err
		}
	}
	return dir, nil
}

// Folder opens the folder at a checked path and makes what is missing. The
// caller may use it until it calls done; "" is the volume itself.
func (t *Tree) folder(p string) (dir *os.File, done func(), err error) {
	if p == "" {
		return t.root, func() {}, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if d := t.held[p]; d != nil {
		return d, func() {}, nil
	}
	d, err := t.walk(p)
	if err != nil {
		return nil, nil, err
	}
	if len(t.held) < maxHeld {
		t.held[p] = d
		return d, func() {}, nil
	}
	return d, func() { d.Close() }, nil
}

// walk goes down name by name.
func (t *Tree) walk(p string) (*os.File, error) {
	at, mine := t.root, false
	for name := range strings.SplitSeq(p, "/") {
		next, err := t.enter(at, name)
		if mine {
			at.Close()
		}
		if err != nil {
			return nil, fmt.Errorf("enter folder %q: %w", p, err)
		}
		at, mine = next, true
	}
	return at, nil
}

// enter opens a folder in dir, and makes it when there's none.
func (t *Tree) enter(dir *os.File, name string) (*os.File, error) {
	d, err := openat(dir, name, openDir, 0)
	if errors.Is(err, unix.ENOENT) {
		if t.OnFolder != nil {
			if err := t.OnFolder(); err != nil {
				return nil, err
			}
		}
		if d, err = makeDir(dir, name); err == nil {
			return d, nil
		}
	}
	switch {
	case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		return nil, fmt.Errorf("%q is a file or a link, and no folder: %w", name, errdefs.ErrAlreadyExists)
	case err != nil:
		return nil, err
	}
	return d, nil
}

func makeDir(dir *os.File, name string) (*os.File, error) {
	if err := unix.Mkdirat(fd(dir), name, dirMode); err != nil && !errors.Is(err, unix.EEXIST) {
		return nil, err
	}
	d, err := openat(dir, name, openDir, 0)
	if err != nil {
		return nil, err
	}
	if err := setMode(d, dirMode); err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// setMode undoes a umask. It leaves alone what is right already: chmod takes
// the setgid bit away where a process is no member of the group.
func setMode(f *os.File, mode uint32) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd(f), &st); err != nil {
		return err
	}
	if st.Mode&0o777 == mode {
		return nil
	}
	return unix.Fchmod(fd(f), mode|st.Mode&unix.S_ISGID)
}

func openat(dir *os.File, name string, flags int, mode uint32) (*os.File, error) {
	for {
		n, err := unix.Openat(fd(dir), name, flags|unix.O_CLOEXEC, mode)
		switch {
		case err == nil:
			return os.NewFile(uintptr(n), name), nil
		case !errors.Is(err, unix.EINTR):
			return nil, err
		}
	}
}

func fd(f *os.File) int { return int(f.Fd()) }

// existing opens the folder at a checked path, and makes nothing.
func (t *Tree) existing(p string) (*os.File, func(), error) {
	if p == "" {
		return t.root, func() {}, nil
	}
	t.mu.Lock()
	d := t.held[p]
	t.mu.Unlock()
	if d != nil {
		return d, func() {}, nil
	}
	at, done := t.root, func() {}
	for name := range strings.SplitSeq(p, "/") {
		next, err := openat(at, name, openDir, 0)
		done()
		if err != nil {
			return nil, nil, err
		}
		at, done = next, func() { next.Close() }
	}
	return at, done, nil
}
