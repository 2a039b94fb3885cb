// SPDX-License-Identifier: Apache-2.0

package runsctest

import (
	"os"
	"path/filepath"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"gvisor.dev/gvisor/runsc/boot"

	"github.com/sedna-io/containerd-shim-sedna/volumes"
)

func TestRunscUnderstandsOurHints(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	emptyDirs := filepath.Join(root, "pods", "uid", "volumes", "kubernetes.io~empty-dir")
	for _, dir := range []string{"scratch", "forced", "byhand", "models/weights"} {
		if err := os.MkdirAll(filepath.Join(emptyDirs, dir), 0o750); err != nil {
			t.Fatal(err)
		}
	}
	spec := &specs.Spec{
		Mounts: []specs.Mount{{Destination: "/dev/shm", Type: "bind", Source: "/run/shm"}},
		Annotations: map[string]string{
			"dev.gvisor.empty-dir.forced.force-shared": "true",
			"dev.gvisor.spec.mount.forced.type":        "tmpfs",
			"dev.gvisor.spec.mount.byhand.type":        "bind",
			"dev.gvisor.spec.mount.byhand.share":       "container",
			"dev.gvisor.spec.mount.gone.type":          "bind",
			"dev.gvisor.spec.mount.gone.share":         "pod",
		},
	}
	n := volumes.Node{KubeletRoot: root, AutoHint: true}
	v, err := volumes.Locate(spec, "uid", n)
	if err != nil {
		t.Fatal(err)
	}
	d, _, err := volumes.Decide(spec, v, n, "models")
	if err != nil {
		t.Fatal(err)
	}
	d.ApplySandbox(spec)
	got, err := boot.NewPodMountHints(spec)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]struct{ source, kind, share string }{
		"models":               {filepath.Join(emptyDirs, "models"), "bind", "shared"},
		"forced":               {filepath.Join(emptyDirs, "forced"), "bind", "shared"},
		"byhand":               {filepath.Join(emptyDirs, "byhand"), "tmpfs", "container"},
		"scratch":              {filepath.Join(emptyDirs, "scratch"), "tmpfs", "pod"},
		"gvisorinternaldevshm": {"/run/shm", "tmpfs", "pod"},
	}
	for name, w := range want {
		hint := got.FindMount(w.source)
		if hint == nil || hint.Name != name || hint.Mount.Type != w.kind || hint.Share.String() != w.share {
			t.Errorf("%s: %+v", name, hint)
		}
	}
	if len(got.Mounts) != len(want) {
		t.Errorf("hints: %v", got.Mounts)
	}
}
