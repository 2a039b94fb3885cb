// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
)

// hostTree makes an allowed folder with in/, beside a secret one.
func hostTree(t *testing.T) (root, outside string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	root, outside = filepath.Join(dir, "allowed"), filepath.Join(dir, "secret")
	for _, d := range []string{filepath.Join(root, "in", "deep"), filepath.Join(outside, "deep")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for file, text := range map[string]string{filepath.Join(root, "in", "f"): "inside", filepath.Join(outside, "f"): "outside"} {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root, outside
}

// textOf reads the file f of a held folder.
func textOf(t *testing.T, held *os.File) string {
	t.Helper()
	fd, err := unix.Openat(int(held.Fd()), "f", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(fd), "f")
	defer file.Close()
	buf := make([]byte, 16)
	n, err := file.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	return string(buf[:n])
}

func TestAHostPathBelowItsRootIsOpened(t *testing.T) {
	root, _ := hostTree(t)
	link(t, "in", filepath.Join(root, "alias"))
	link(t, root, filepath.Join(filepath.Dir(root), "operators-link"))
	for _, c := range []struct{ root, source, real string }{
		{root, root, root},
		{root + "/", root + "/in", root + "/in"},
		{root, root + "/alias", root + "/in"},
		{root, root + "/in/../in/deep/", root + "/in/deep"},
		{filepath.Dir(root) + "/operators-link", filepath.Dir(root) + "/operators-link/in", root + "/in"},
	} {
		held, err := OpenHostPath(c.root, c.source)
		if err != nil {
			t.Errorf("%s: %v", c.source, err)
			continue
		}
		if held.Name() != c.real {
			t.Errorf("%s is %s, want %s", c.source, held.Name(), c.real)
		}
		_ = held.Close()
	}
}

func TestAFileThatAHostPathLacksIsNamed(t *testing.T) {
	root, _ := hostTree(t)
	link(t, "nowhere", filepath.Join(root, "in", "link"))
	held, err := OpenHostPath(root, root+"/in")
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if err := CheckHostFiles(held, []string{"deep", "f", "link"}); err != nil {
		t.Error(err)
	}
	err = CheckHostFiles(held, []string{"f", "gone"})
	if !errdefs.IsNotFound(err) || !strings.Contains(err.Error(), `"gone"`) || !strings.Contains(err.Error(), root+"/in") {
		t.Errorf("error %v", err)
	}
}

func TestAHostPathThatLeavesItsRootIsRefused(t *testing.T) {
	root, outside := hostTree(t)
	link(t, outside, filepath.Join(root, "absolute"))
	link(t, "../secret", filepath.Join(root, "relative"))
	link(t, "/proc/self/root", filepath.Join(root, "magic"))
	link(t, "loop", filepath.Join(root, "loop"))
	link(t, "/", filepath.Join(root, "in", "slash"))
	for _, c := range []struct {
		source string
		kind   error
		say    string
	}{
		{root + "/absolute", errdefs.ErrPermissionDenied, "symbolic link"},
		{root + "/absolute/deep", errdefs.ErrPermissionDenied, "symbolic link"},
		{root + "/relative", errdefs.ErrPermissionDenied, "symbolic link"},
		{root + "/magic/etc", errdefs.ErrPermissionDenied, "symbolic link"},
		{root + "/in/slash/etc", errdefs.ErrPermissionDenied, "symbolic link"},
		{root + "/loop", errdefs.ErrPermissionDenied, "symbolic link"},
		{root + "/../secret", errdefs.ErrPermissionDenied, "isn't below"},
		{root + "-other", errdefs.ErrPermissionDenied, "isn't below"},
		{outside, errdefs.ErrPermissionDenied, "isn't below"},
		{"relative", errdefs.ErrPermissionDenied, "isn't below"},
		{root + "/none", errdefs.ErrNotFound, "has no folder"},
		{root + "/in/f", errdefs.ErrInvalidArgument, "is no folder"},
	} {
		held, err := OpenHostPath(root, c.source)
		if err == nil {
			t.Errorf("%s was opened as %s", c.source, held.Name())
			_ = held.Close()
			continue
		}
		if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.say) {
			t.Errorf("%s: %v", c.source, err)
		}
	}
	if _, err := OpenHostPath(filepath.Join(root, "none"), filepath.Join(root, "none", "x")); !errors.Is(err, errdefs.ErrNotFound) {
		t.Errorf("a root that isn't there: %v", err)
	}
}

// swap exchanges two names for ever, until stop is closed.
func swap(t *testing.T, a, b string) {
	t.Helper()
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				_ = unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
			}
		}
	}()
	t.Cleanup(func() { close(stop); <-done })
}

func TestAFolderSwappedForALinkNeverLeadsOut(t *testing.T) {
	for _, c := range []struct{ name, target, source string }{
		{"the folder itself, an absolute link", "", "in"},
		{"the folder itself, a relative link", "../secret", "in"},
		{"a folder above it", "../secret", "in/deep/.."},
	} {
		t.Run(c.name, func(t *testing.T) {
			root, outside := hostTree(t)
			if c.target == "" {
				c.target = outside
			}
			link(t, c.target, filepath.Join(root, "evil"))
			swap(t, filepath.Join(root, "in"), filepath.Join(root, "evil"))
			attack(t, root, filepath.Join(root, c.source))
		})
	}
}

func TestAFolderMovedOutIsNotFollowed(t *testing.T) {
	root, outside := hostTree(t)
	swap(t, filepath.Join(root, "in"), filepath.Join(outside, "deep"))
	for range 3000 {
		held, err := OpenHostPath(root, filepath.Join(root, "in"))
		if err != nil {
			if !errors.Is(err, errdefs.ErrPermissionDenied) {
				t.Fatal(err)
			}
			continue
		}
		if !within(held.Name(), root) {
			t.Fatalf("opened %s", held.Name())
		}
		_ = held.Close()
	}
}

// attack opens source while somebody swaps it: it gets what is inside, or an
// error.
func attack(t *testing.T, root, source string) {
	t.Helper()
	opened := 0
	for range 5000 {
		held, err := OpenHostPath(root, source)
		if err != nil {
			if !errors.Is(err, errdefs.ErrPermissionDenied) && !errors.Is(err, errdefs.ErrUnavailable) {
				t.Fatal(err)
			}
			continue
		}
		opened++
		if text := textOf(t, held); text != "inside" {
			t.Fatalf("the link led to %q at %s", text, held.Name())
		}
		_ = held.Close()
	}
	if opened == 0 {
		t.Error("never opened: the test tests nothing")
	}
}

func requireMount(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("mounting needs root")
	}
}

func TestABoundHostPathStaysThatFolder(t *testing.T) {
	requireMount(t)
	root, outside := hostTree(t)
	target := filepath.Join(t.TempDir(), "run", "0")
	held, err := OpenHostPath(root, filepath.Join(root, "in"))
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	// Whoever can write to root puts something else in its place.
	if err := os.Rename(filepath.Join(root, "in"), filepath.Join(root, "old")); err != nil {
		t.Fatal(err)
	}
	link(t, outside, filepath.Join(root, "in"))
	if err := BindHostPath(held, target, true); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ReleaseHostPath(target) })
	if text, err := os.ReadFile(filepath.Join(target, "f")); err != nil || string(text) != "inside" {
		t.Errorf("mounted is %q, %v", text, err)
	}
	if err := os.WriteFile(filepath.Join(target, "new"), nil, 0o644); !errors.Is(err, unix.EROFS) {
		t.Errorf("writing to a read-only one: %v", err)
	}
	if err := ReleaseHostPath(target); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(target); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after the release: %v", err)
	}
	if err := ReleaseHostPath(target); err != nil {
		t.Errorf("a second release: %v", err)
	}
	if text, err := os.ReadFile(filepath.Join(root, "old", "f")); err != nil || string(text) != "inside" {
		t.Errorf("the folder itself is gone: %q, %v", text, err)
	}
}

// bound mounts the whole of root for the test.
func bound(t *testing.T, root string, readOnly bool) (target string) {
	t.Helper()
	target = filepath.Join(t.TempDir(), "0")
	held, err := OpenHostPath(root, root)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if err := BindHostPath(held, target, readOnly); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ReleaseHostPath(target) })
	return target
}

func TestAWritableHostPathIsWrittenThroughWithoutDevicesOrSetuid(t *testing.T) {
	requireMount(t)
	root, _ := hostTree(t)
	target := bound(t, root, false)
	if err := os.WriteFile(filepath.Join(target, "in", "new"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(root, "in", "new")); err != nil {
		t.Error(err)
	}
	var stat unix.Statfs_t
	if err := unix.Statfs(target, &stat); err != nil {
		t.Fatal(err)
	}
	if stat.Flags&unix.ST_NOSUID == 0 || stat.Flags&unix.ST_NODEV == 0 {
		t.Errorf("its flags are %#x", stat.Flags)
	}
}

func TestWhatIsMountedBelowAHostPathIsReadOnlyToo(t *testing.T) {
	requireMount(t)
	root, _ := hostTree(t)
	disk := filepath.Join(root, "in", "deep")
	if err := unix.Mount("none", disk, "tmpfs", 0, ""); err != nil {
		t.Skip("mounting isn't allowed:", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(disk, unix.MNT_DETACH) })
	target := bound(t, root, true)
	if err := os.WriteFile(filepath.Join(target, "in", "deep", "x"), nil, 0o644); !errors.Is(err, unix.EROFS) {
		t.Errorf("writing to a disk below it: %v", err)
	}
}
