// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"gvisor.dev/gvisor/pkg/shim/v1/utils"
)

// BenchmarkRewrite compares with gVisor's rewrite on a spec of 60 mounts and 40
// annotations, once as a sandbox and once as a container:
//
//	go test ./volumes -run '^$' -bench Rewrite -count 10
func BenchmarkRewrite(b *testing.B) {
	root, sandbox, container := benchPod(b)
	n := Node{KubeletRoot: root}
	kubeletPodsDir = filepath.Join(root, "pods")
	decide := func(spec *specs.Spec) Decisions {
		v, err := Locate(spec, ownUID, n)
		if err != nil {
			b.Fatal(err)
		}
		d, _, err := Decide(spec, v, n, "")
		if err != nil {
			b.Fatal(err)
		}
		return d
	}
	d := decide(sandbox)
	gvisor := func(spec *specs.Spec) {
		if _, err := utils.UpdateVolumeAnnotations(spec); err != nil {
			b.Fatal(err)
		}
	}
	for name, side := range map[string]struct {
		spec    *specs.Spec
		rewrite func(*specs.Spec)
	}{
		"sandbox/ours":   {sandbox, func(spec *specs.Spec) { decide(spec).ApplySandbox(spec) }},
		"sandbox/gvisor": {sandbox, gvisor},
		"container/ours": {container, func(spec *specs.Spec) {
			if _, err := d.ApplyContainer(spec); err != nil {
				b.Fatal(err)
			}
		}},
		"container/gvisor": {container, gvisor},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				b.StopTimer()
				spec := cloneSpec(side.spec)
				b.StartTimer()
				side.rewrite(spec)
			}
		})
	}
}

// benchPod is a pod with ten hinted emptyDirs of two fields each, and others.
func benchPod(b *testing.B) (root string, sandbox, container *specs.Spec) {
	b.Helper()
	root, err := filepath.EvalSymlinks(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	sandbox = sandboxOf(nil)
	var mounts []specs.Mount
	for i := range 20 {
		name := fmt.Sprint("volume-", i)
		dir := filepath.Join(root, "pods", ownUID, "volumes", emptyDirPlugin, name)
		if err := os.MkdirAll(dir, 0o777); err != nil {
			b.Fatal(err)
		}
		mounts = append(mounts, bind(dir, "/mnt/"+name, "rbind", "rprivate", "rw"))
		if i < 10 {
			sandbox.Annotations[hintKey(name, "type")] = "tmpfs"
			sandbox.Annotations[hintKey(name, "share")] = "pod"
		}
	}
	for i := range 39 {
		mounts = append(mounts, bind(fmt.Sprint("/opt/", i), fmt.Sprint("/host/", i), "rbind", "ro"))
	}
	for i := len(sandbox.Annotations); i < 40; i++ {
		sandbox.Annotations[fmt.Sprint("example.org/", i)] = "x"
	}
	container = cloneSpec(sandbox)
	container.Annotations[utils.ContainerTypeAnnotation] = "container"
	mounts = append(mounts, runtimeShm)
	container.Mounts = mounts
	sandbox.Mounts = mounts
	return root, sandbox, container
}
