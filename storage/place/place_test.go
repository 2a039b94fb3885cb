// SPDX-License-Identifier: Apache-2.0

package place

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
)

func TestNamesOfStrangers(t *testing.T) {
	for _, p := range []string{
		"a", "a/b", "a b/ü", ".hidden", "..a", "a..", "...", `back\slash`, "a/.sedna/b", "host:9000/x", strings.Repeat("n", 255),
		strings.Repeat("d/", 99) + "f", "new\nline",
	} {
		if err := CheckPath(p); err != nil {
			t.Errorf("%q: %v", p, err)
		}
	}
	for _, p := range []string{
		"", "/", "/a", "a/", "a//b", ".", "..", "a/..", "../a", "a/../b", "./a", "a/.", `a\..\b`, `..\a`, `a\..`,
		".sedna", ".sedna/x", "nul\x00", strings.Repeat("n", 256), strings.Repeat("d/", 100) + "f", strings.Repeat("long/", 1000) + "f",
	} {
		err := CheckPath(p)
		if !errors.Is(err, errdefs.ErrInvalidArgument) {
			t.Errorf("%.40q: error is %v", p, err)
		}
		if len(err.Error()) > 5000 {
			t.Errorf("%.40q: the error has %d bytes", p, len(err.Error()))
		}
	}
}

func FuzzPath(f *testing.F) {
	for _, s := range []string{"a/b", "../a", `a\..\b`, "a//b", ".sedna/x", "a\x00b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, p string) {
		if CheckPath(p) != nil {
			return
		}
		if !fs.ValidPath(strings.ToValidUTF8(p, "x")) || p == "." || !filepath.IsLocal(p) {
			t.Fatalf("%q was let through", p)
		}
	})
}

func open(t *testing.T) (*Tree, string) {
	t.Helper()
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	tree, err := Open(root)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tree.Close)
	return tree, dir
}

func stage(t *testing.T, tree *Tree, name, data string) {
	t.Helper()
	f, err := tree.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(data); err != nil {
		t.Fatal(err)
	}
}

func TestAFileAppearsWholeAndReplacesOne(t *testing.T) {
	tree, dir := open(t)
	for _, data := range []string{"one", "two"} {
		stage(t, tree, "part", data)
		if err := tree.Publish("part", "a/b/f"); err != nil {
			t.Fatal(err)
		}
		if got, _ := os.ReadFile(filepath.Join(dir, "a/b/f")); string(got) != data {
			t.Errorf("it holds %q", got)
		}
	}
	if err := tree.Symlink("f", "a/b/f"); err != nil {
		t.Fatal(err)
	}
	if to, _ := os.Readlink(filepath.Join(dir, "a/b/f")); to != "f" {
		t.Errorf("the link leads to %q", to)
	}
	if _, err := tree.Stat("a/b/f"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a link passes for a file: %v", err)
	}
}

func TestWhatStandsInTheWayIsNamed(t *testing.T) {
	tree, dir := open(t)
	if err := os.MkdirAll(filepath.Join(dir, "folder"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	stage(t, tree, "part", "x")
	for p, do := range map[string]func(string) error{
		"folder":      func(p string) error { return tree.Publish("part", p) },
		"file/x":      func(p string) error { return tree.Publish("part", p) },
		"file/x/y":    tree.Mkdir,
		"folder/../x": func(p string) error { return tree.Publish("part", p) },
		".sedna/evil": func(p string) error { return tree.Publish("part", p) },
	} {
		if err := do(p); !errors.Is(err, errdefs.ErrAlreadyExists) && !errors.Is(err, errdefs.ErrInvalidArgument) {
			t.Errorf("%q: error is %v", p, err)
		}
	}
	if err := tree.Symlink("x", "folder"); !errors.Is(err, errdefs.ErrAlreadyExists) {
		t.Errorf("a link over a folder: %v", err)
	}
}

func TestOnlyOurOwnPlainFilesAreReopened(t *testing.T) {
	tree, dir := open(t)
	stage(t, tree, "good", "x")
	stage(t, tree, "twice", "x")
	staging := filepath.Join(dir, Folder)
	if err := os.Link(filepath.Join(staging, "twice"), filepath.Join(staging, "again")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("good", filepath.Join(staging, "link")); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(filepath.Join(staging, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(staging, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, ok := range map[string]bool{"good": true, "twice": false, "link": false, "pipe": false, "folder": false, "gone": false} {
		f, err := tree.Reopen(name)
		if (err == nil) != ok {
			t.Errorf("%s: error is %v", name, err)
		}
		if err == nil {
			f.Close()
		}
	}
}

func TestAFolderOfSomeoneElseIsNoStagingFolder(t *testing.T) {
	for name, prepare := range map[string]func(string) error{
		"a link": func(p string) error { return os.Symlink(os.TempDir(), p) },
		"a file": func(p string) error { return os.WriteFile(p, nil, 0o644) },
		"another user's": func(p string) error {
			return errors.Join(os.Mkdir(p, 0o777), os.Chown(p, 12345, 12345))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := prepare(filepath.Join(dir, Folder)); err != nil {
				t.Skipf("can't prepare it: %v", err)
			}
			root, err := os.OpenRoot(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer root.Close()
			if _, err := Open(root); err == nil {
				t.Error("it was taken")
			}
		})
	}
}

// An attacker swaps a folder for a link out of the volume, again and again,
// while files are placed below it.
func TestAFolderSwappedForALinkLeadsNowhere(t *testing.T) {
	tree, dir := open(t)
	outside := t.TempDir()
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		a := filepath.Join(dir, "a")
		for {
			select {
			case <-stop:
				return
			default:
			}
			_ = os.Rename(a, a+".kept")
			_ = os.Symlink(outside, a)
			_ = os.Remove(a)
			_ = os.Rename(a+".kept", a)
		}
	}()
	for range 2000 {
		stage(t, tree, "part", "x")
		err := tree.Publish("part", "a/f")
		if err != nil && !errors.Is(err, errdefs.ErrAlreadyExists) && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		// Forget the folder that is held, so that it is looked up again.
		tree.mu.Lock()
		for p, d := range tree.held {
			d.Close()
			delete(tree.held, p)
		}
		tree.mu.Unlock()
	}
	close(stop)
	<-stopped
	if left, _ := os.ReadDir(outside); len(left) > 0 {
		t.Errorf("%d files are outside", len(left))
	}
}
