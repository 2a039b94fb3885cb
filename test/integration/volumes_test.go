// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/node"
)

// google/gvisor#14033, google/gvisor#8275: the hint and the mounts must agree,
// or the medium changes silently. google/gvisor#11326: without a hint inotify
// doesn't tell of what another container writes.
func TestEmptyDirsAreInsideWhatTheDocsSay(t *testing.T) {
	for handler, auto := range map[string]bool{node.Sedna: false, autoHints: true} {
		t.Run(handler, func(t *testing.T) {
			var rows []emptyDir
			for _, row := range emptyDirs {
				if row.auto == auto {
					rows = append(rows, row)
				}
			}
			testEmptyDirs(t, handler, rows)
		})
	}
}

func testEmptyDirs(t *testing.T, handler string, rows []emptyDir) {
	n := testutil.Node(t)
	pod := node.PodSpec{Handler: handler, Annotations: map[string]string{}}
	var spec node.ContainerSpec
	for _, row := range rows {
		pod.Volumes = append(pod.Volumes, row.volume())
		spec.Mounts = append(spec.Mounts, node.Mount{Volume: row.name, Path: "/" + row.name})
		if row.hint != "" {
			maps.Copy(pod.Annotations, hints(row.name, row.hint, "pod"))
		}
		if row.options != "" {
			pod.Annotations["dev.gvisor.spec.mount."+row.name+".options"] = row.options
		}
	}
	w := &world{t: t, pod: n.RunPod(t, pod)}
	spec.Name = "one"
	w.one = w.pod.Start(t, spec)
	each := func(what string, check func(t *testing.T, row emptyDir)) {
		for _, row := range rows {
			t.Run(row.name+" "+what, func(t *testing.T) { check(t, row) })
		}
	}

	each("looks as intended", w.looksAsIntended)
	each("counts what it holds", w.countsWhatItHolds)
	w.one.Stop(t)
	w.one = w.pod.Start(t, spec)
	each("keeps its contents when its only container restarts", func(t *testing.T, row emptyDir) {
		sees(t, w.one, row, "file")
	})

	two := w.pod.Start(t, node.ContainerSpec{Name: "two", Mounts: spec.Mounts})
	each("is one for both containers", func(t *testing.T, row emptyDir) {
		sees(t, two, row, "file")
		two.Exec(t, "write", "/"+row.name+"/two", "from two")
		holds(t, w.one, "/"+row.name+"/two", "from two")
	})
	w.watch(t, two, rows)
	w.one.Stop(t)
	w.one = w.pod.Start(t, spec)
	each("is the same for a restarted neighbour", func(t *testing.T, row emptyDir) {
		sees(t, w.one, row, "two")
		w.looksAsIntended(t, row)
	})
}

func sees(t *testing.T, c testutil.TestContainer, row emptyDir, name string) {
	t.Helper()
	if got := c.Tree(t, "/"+row.name); got[name].Size == 0 {
		t.Errorf("container %s sees no file %q with contents: %v", c.Spec.Name, name, got)
	}
}

func (w *world) looksAsIntended(t *testing.T, row emptyDir) {
	fsType, options := w.one.Mount(t, "/"+row.name)
	got := w.one.Stat(t, "/"+row.name)
	wantType, wantMagic := "tmpfs", int64(unix.TMPFS_MAGIC)
	if row.kept == onNode {
		wantType, wantMagic = "9p", unix.V9FS_MAGIC
	}
	if fsType != wantType || got.FSType != wantMagic {
		t.Errorf("its file system is %s (%#x), not %s", fsType, got.FSType, wantType)
	}
	want := strings.Replace(row.mount, "SIZE", fmt.Sprint(row.size(w)>>10), 1)
	if options != want && (row.kept != onNode || !strings.HasSuffix(options, want)) {
		t.Errorf("its mount options are %s, not %s", options, want)
	}
	if got.Mode != row.look.Mode || got.UID != row.look.UID || got.GID != row.look.GID {
		t.Errorf("mode and owner are %s %d:%d, not %s %d:%d", got.Mode, got.UID, got.GID, row.look.Mode, row.look.UID, row.look.GID)
	}
	if want := row.size(w); got.FSBytes != want {
		t.Errorf("df says %d bytes, not %d", got.FSBytes, want)
	}
}

// countsWhatItHolds leaves the file behind.
func (w *world) countsWhatItHolds(t *testing.T, row emptyDir) {
	const size = 3 << 20
	before := w.one.Stat(t, "/"+row.name)
	w.one.Exec(t, "fill", "/"+row.name+"/file", "3145728")
	after := w.one.Stat(t, "/"+row.name)
	// On the node's disk others write too.
	if used := before.FSFree - after.FSFree; row.size(w) == limit && used != size {
		t.Errorf("df says that a file of %d bytes takes %d", size, used)
	}
	usage, err := node.DiskUsage(w.pod.VolumeDir(row.name))
	if err != nil {
		t.Fatal(err)
	}
	names := strings.Join(node.Entries(w.pod.VolumeDir(row.name)), " ")
	switch {
	case row.kept == inMemory && (usage != 0 || names != ""):
		t.Errorf("the node sees %q with %d bytes", names, usage)
	case row.kept == onDisk && !strings.HasPrefix(names, ".gvisor.filestore."), row.kept == onNode && names != "file":
		t.Errorf("the node sees %q", names)
	case row.kept != inMemory && usage != size:
		t.Errorf("kubelet would count %d bytes for a file of %d", usage, size)
	}
}

// watch lets a third container watch all volumes while others write to them.
func (w *world) watch(t *testing.T, two testutil.TestContainer, rows []emptyDir) {
	args, want := []string{"watch"}, "ready\n"
	for _, row := range rows {
		args = append(args, "/"+row.name)
		if row.kept != onNode {
			want += "/" + row.name + "/news\n"
		}
	}
	last := rows[len(rows)-1].name
	watcher := w.pod.Start(t, node.ContainerSpec{Name: "watcher", Args: args, Mounts: two.Spec.Mounts})
	watcher.WaitOutput(t, "ready\n")
	for _, row := range rows {
		two.Exec(t, "write", "/"+row.name+"/news", "news")
	}
	two.Exec(t, "write", "/"+last+"/end", "end")
	watcher.Wait(t)
	if got := watcher.Output(t); got != want+"/"+last+"/end\n" {
		t.Errorf("inotify tells another container of\n%s, not of\n%s", got, want)
	}
}

// What docs/volumes.md says of a volume's life: kubelet makes a new sandbox for
// the same pod, and keeps its volumes.
func TestANewSandboxFindsWhatTheNodeKeepsAndNothingElse(t *testing.T) {
	n := testutil.Node(t)
	pod := n.RunPod(t, node.PodSpec{
		Handler: autoHints, Annotations: map[string]string{"dev.gvisor.empty-dir.node.force-shared": "true"},
		Volumes: []node.Volume{{Name: "disk"}, {Name: "memory", Memory: true}, {Name: "node"}, {Name: "filled", Files: map[string]string{"file": "by a driver"}}},
	})
	spec := node.ContainerSpec{Mounts: []node.Mount{
		{Volume: "disk", Path: "/disk"}, {Volume: "memory", Path: "/memory"}, {Volume: "node", Path: "/node"}, {Volume: "filled", Path: "/filled"},
	}}
	first := pod.Start(t, spec)
	holds(t, first, "/filled/file", "by a driver")
	for _, mount := range spec.Mounts {
		first.Exec(t, "write", mount.Path+"/file", "of the first sandbox")
	}
	if err := pod.Remove(testutil.Context(t)); err != nil {
		t.Fatal(err)
	}
	pod.Run(t)
	second := pod.Start(t, spec)

	holds(t, second, "/node/file", "of the first sandbox")
	holds(t, second, "/filled/file", "of the first sandbox")
	second.ExecFails(t, "stat", "/disk/file")
	second.ExecFails(t, "stat", "/memory/file")
	if kind, _ := second.Mount(t, "/disk"); kind != "tmpfs" {
		t.Errorf("the hinted volume is a %s the second time", kind)
	}
	if usage, err := node.DiskUsage(pod.VolumeDir("disk")); err != nil || usage != 0 {
		t.Errorf("kubelet counts %d bytes of the first sandbox: %v, error %v", usage, node.Entries(pod.VolumeDir("disk")), err)
	}
}
