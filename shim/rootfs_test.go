// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	taskapi "github.com/containerd/containerd/api/runtime/task/v2"
	"github.com/containerd/containerd/api/types"
	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sedna-io/containerd-shim-sedna/shim/bundle"
	"github.com/sedna-io/containerd-shim-sedna/volumes"
)

// The image is a stranger's: what its links name is inside of it.
func TestLinksOfAnImageStayInside(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(t.TempDir(), "secret")
	for _, step := range []error{
		os.WriteFile(outside, nil, 0o600),
		os.MkdirAll(filepath.Join(dir, "rootfs", "usr", "bin"), 0o755),
		os.WriteFile(filepath.Join(dir, "rootfs", "usr", "bin", "ls"), nil, 0o600),
		os.Symlink("usr/bin", filepath.Join(dir, "rootfs", "bin")),
		os.Symlink("/usr", filepath.Join(dir, "rootfs", "absolute")),
		os.Symlink(outside, filepath.Join(dir, "rootfs", "thief")),
		os.Symlink("../../../../../../usr", filepath.Join(dir, "rootfs", "climber")),
		os.Symlink("loop", filepath.Join(dir, "rootfs", "loop")),
	} {
		if step != nil {
			t.Fatal(step)
		}
	}
	root, err := openRootFS(&taskapi.CreateTaskRequest{Bundle: dir}, &bundle.Bundle{Dir: dir, Spec: &specs.Spec{}})
	if err != nil {
		t.Fatal(err)
	}
	defer root.dir.Close()
	for path, want := range map[string]volumes.Found{
		"/bin/ls":   {Path: "/usr/bin/ls", Host: filepath.Join(dir, "rootfs/usr/bin/ls")},
		"/bin":      {Path: "/usr/bin", Host: filepath.Join(dir, "rootfs/usr/bin"), Dir: true},
		"/absolute": {Path: "/usr", Host: filepath.Join(dir, "rootfs/usr"), Dir: true},
		"/climber":  {Path: "/usr", Host: filepath.Join(dir, "rootfs/usr"), Dir: true},
		"/../usr":   {Path: "/usr", Host: filepath.Join(dir, "rootfs/usr"), Dir: true},
	} {
		if got, err := root.Lookup(path); err != nil || got != want {
			t.Errorf("%s is %+v, %v; want %+v", path, got, err, want)
		}
	}
	for _, path := range []string{"/thief", "/absent", "/bin/ls/below"} {
		if got, err := root.Lookup(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is %+v, %v", path, got, err)
		}
	}
	if _, err := root.Lookup("/loop"); err == nil {
		t.Error("an endless link leads somewhere")
	}
}

// imageWithFile asks for a container whose root file system has one file.
func imageWithFile(t *testing.T) *taskapi.CreateTaskRequest {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounts need root")
	}
	image, dir := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(image, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unmountRootFS(dir) })
	return &taskapi.CreateTaskRequest{Bundle: dir, Rootfs: []*types.Mount{{Type: "bind", Source: image, Options: []string{"rbind", "ro"}}}}
}

func TestRootFileSystemIsMountedOnceAndTakenBackAfterAFailure(t *testing.T) {
	r := imageWithFile(t)
	root, err := openRootFS(r, &bundle.Bundle{Dir: r.Bundle, Spec: &specs.Spec{}})
	if err != nil {
		t.Fatal(err)
	}
	got, err := root.Lookup("/file")
	if want := (volumes.Found{Path: "/file", Host: filepath.Join(r.Bundle, "rootfs", "file")}); err != nil || got != want {
		t.Errorf("found %+v, %v", got, err)
	}
	root.dir.Close()
	if len(r.Rootfs) > 0 {
		t.Errorf("gVisor's service would mount %v once more", r.Rootfs)
	}
	if err := unmountRootFS(r.Bundle); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(filepath.Join(r.Bundle, "rootfs")); err != nil || len(left) > 0 {
		t.Errorf("it is still mounted: %v, %v", left, err)
	}
}

// The kernel can't be sure of a ".." while something is renamed anywhere.
func TestLinksUpwardsAreFollowedOnABusyNode(t *testing.T) {
	dir, busy := t.TempDir(), t.TempDir()
	deep := filepath.Join(dir, "rootfs", "a", "b", "c")
	for _, step := range []error{
		os.MkdirAll(deep, 0o755),
		os.MkdirAll(filepath.Join(busy, "1", "0"), 0o755),
		os.Symlink("../../../a/b/../../a/b/../../a/b/../../a", filepath.Join(deep, "up")),
	} {
		if step != nil {
			t.Fatal(step)
		}
	}
	root, err := openRootFS(&taskapi.CreateTaskRequest{Bundle: dir}, &bundle.Bundle{Dir: dir, Spec: &specs.Spec{}})
	if err != nil {
		t.Fatal(err)
	}
	defer root.dir.Close()
	done, stopped := make(chan struct{}), make(chan struct{})
	defer func() { close(done); <-stopped }()
	go func() {
		defer close(stopped)
		one, other := filepath.Join(busy, "1", "0"), filepath.Join(busy, "2")
		for {
			select {
			case <-done:
				return
			default:
				_ = os.Rename(one, other)
				_ = os.Rename(other, one)
			}
		}
	}()
	for range 20000 {
		if got, err := root.Lookup("/a/b/c/up"); err != nil || got.Path != "/a" {
			t.Fatalf("found %+v, %v", got, err)
		}
	}
}

// Create may have given up, and taken back what was mounted until then.
func TestRootFileSystemThatComesTooLateIsTakenBack(t *testing.T) {
	r := imageWithFile(t)
	spec := &specs.Spec{Linux: &specs.Linux{MaskedPaths: []string{"/file"}}}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errKilled)
	if _, err := protect(ctx, &touching{}, r, &bundle.Bundle{Dir: r.Bundle, Spec: spec}); !errors.Is(err, errKilled) {
		t.Errorf("the error is %v", err)
	}
	if left, err := os.ReadDir(rootFSDir(r.Bundle)); err != nil || len(left) > 0 {
		t.Errorf("it is still mounted: %v, %v", left, err)
	}
}

// Whoever still looks at a file system that hangs must not keep it mounted.
func TestRootFileSystemInUseIsTakenBack(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounts need root")
	}
	image, dir := t.TempDir(), t.TempDir()
	t.Cleanup(func() { _ = unmountRootFS(dir) })
	r := &taskapi.CreateTaskRequest{Bundle: dir, Rootfs: []*types.Mount{{Type: "bind", Source: image, Options: []string{"rbind"}}}}
	root, err := openRootFS(r, &bundle.Bundle{Dir: dir, Spec: &specs.Spec{}})
	if err != nil {
		t.Fatal(err)
	}
	defer root.dir.Close()
	if err := unmountRootFS(dir); err != nil {
		t.Error(err)
	}
}
