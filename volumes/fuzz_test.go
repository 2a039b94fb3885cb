// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"gvisor.dev/gvisor/pkg/shim/v1/utils"
)

// FuzzRewrite compares with gVisor's rewrite on annotations and mounts that the
// fuzzer writes, a line each, over one tree that has every kind of volume.
// $PODS and $UID in them stand for the tree's pods folder and the pod's uid.
func FuzzRewrite(f *testing.F) {
	root := fuzzTree(f)
	noMounts := mountInfo
	mountInfo = filepath.Join(root, "none")
	f.Cleanup(func() { mountInfo = noMounts })

	for _, seed := range fuzzSeeds {
		f.Add(seed.annotations, seed.mounts, seed.download, seed.flags)
	}
	f.Fuzz(func(t *testing.T, annotations, mounts, download string, flags uint8) {
		expand := strings.NewReplacer("$PODS", filepath.Join(root, "pods"), "$UID", ownUID)
		a := map[string]string{}
		for line := range strings.Lines(expand.Replace(annotations)) {
			key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
			a[key] = value
		}
		if len(a) > 50 {
			return
		}
		c := trial{root: root, auto: flags&1 != 0, sandbox: &specs.Spec{Annotations: a}, download: download}
		c.spec = cloneSpec(c.sandbox)
		for line := range strings.Lines(expand.Replace(mounts)) {
			parts := strings.Split(strings.TrimSuffix(line, "\n"), "|")
			if len(parts) < 3 {
				continue
			}
			m := specs.Mount{Destination: parts[0], Type: parts[1], Source: parts[2], Options: parts[3:]}
			c.spec.Mounts = append(c.spec.Mounts, m)
			if m.Destination == shmPath {
				c.sandbox.Mounts = append(c.sandbox.Mounts, m)
			}
		}
		if len(c.spec.Mounts) > 50 {
			return
		}
		c.sandbox.Annotations[utils.ContainerTypeAnnotation] = "sandbox"
		c.spec.Annotations[utils.ContainerTypeAnnotation] = "container"
		if flags&2 != 0 {
			c.spec = nil
		}
		if c.check() != "" {
			c.fail(t, "")
		}
	})
}

var fuzzSeeds = []struct {
	annotations, mounts, download string
	flags                         uint8
}{
	{
		"dev.gvisor.spec.mount.empty.type=tmpfs\ndev.gvisor.spec.mount.empty.share=pod\nio.kubernetes.cri.sandbox-log-directory=/var/log/pods/ns_p_$UID",
		"/a|bind|$PODS/$UID/volumes/kubernetes.io~empty-dir/empty|rbind|rw\n/dev/shm|bind|/run/shm|rbind\n/dev/shm|tmpfs|shm", "", 0,
	},
	{
		"dev.gvisor.spec.mount.full.type=bind\ndev.gvisor.empty-dir.empty.force-shared=1\nio.kubernetes.cri.sandbox-uid=$UID",
		"/a|none|$PODS/$UID/volume-subpaths/empty/main/0|bind", "store", 1,
	},
	{
		"dev.gvisor.spec.mount.*.type=tmpfs\ndev.gvisor.spec.mount.a.b.type=odd\nio.kubernetes.cri.sandbox-log-directory=/$UID/",
		"/a|tmpfs|$PODS/other/volumes/x/empty|bind|rbind", "", 2,
	},
	{
		"dev.gvisor.spec.mount.gke-gcsfuse-tmp.type=tmpfs\ndev.gvisor.flag.host-uds=\nio.kubernetes.cri.sandbox-log-directory=/var/log/pods/ns_p_$UID",
		"/a|bind|$PODS/$UID/volumes/kubernetes.io~empty-dir/gke-gcsfuse-tmp", "gke-gcsfuse-tmp", 0,
	},
}

// fuzzTree has volumes in all states, under names that say which.
func fuzzTree(f *testing.F) (root string) {
	f.Helper()
	root, err := filepath.EvalSymlinks(f.TempDir())
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range []string{
		"kubernetes.io~empty-dir/empty/", "kubernetes.io~empty-dir/full/x", "kubernetes.io~empty-dir/store/.gvisor.filestore.s1",
		"kubernetes.io~empty-dir/stores/.gvisor.filestore.s1", "kubernetes.io~empty-dir/stores/.gvisor.filestore.s2",
		"kubernetes.io~empty-dir/gke-gcsfuse-tmp/socket", "kubernetes.io~configmap/settings/key",
		"kubernetes.io~empty-dir/twice/", "kubernetes.io~csi/twice/", "kubernetes.io~empty-dir/[odd]/",
	} {
		full := filepath.Join(root, "pods", ownUID, "volumes", path)
		if err := os.MkdirAll(filepath.Dir(full), 0o777); err != nil {
			f.Fatal(err)
		}
		if strings.HasSuffix(path, "/") {
			err = os.MkdirAll(full, 0o777)
		} else {
			err = os.WriteFile(full, nil, 0o666)
		}
		if err != nil {
			f.Fatal(err)
		}
	}
	return root
}
