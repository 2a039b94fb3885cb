// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/node"
)

// relink makes path a link to target, whatever it was.
func relink(target, path string) error {
	if err := os.RemoveAll(path); err != nil {
		return err
	}
	return os.Symlink(target, path)
}

// Somebody has changed the folder that kubelet made. The download of these
// pods would work without the secret: that it fails shows that the secret counts.
func TestSecretVolumeThatLeadsElsewhereIsRefused(t *testing.T) {
	n := testutil.Node(t)
	server := n.Web(t)
	url := server.File("/model", []byte("x"))
	outside := t.TempDir()
	put(t, outside+"/BEARER_TOKEN", canary)
	for name, c := range map[string]struct {
		tamper func(dir string) error
		says   []string
	}{
		"..data leads to another folder": {
			func(dir string) error { return relink(outside, dir+"/..data") },
			[]string{"PermissionDenied", `"keys"`, "BEARER_TOKEN"},
		},
		"..data climbs out": {
			func(dir string) error { return relink("../../../../../../../../.."+outside, dir+"/..data") },
			[]string{"PermissionDenied", `"keys"`, "BEARER_TOKEN"},
		},
		"a file leads to another": {
			func(dir string) error { return relink(outside+"/BEARER_TOKEN", dir+"/BEARER_TOKEN") },
			[]string{"PermissionDenied", `"keys"`, "BEARER_TOKEN"},
		},
		"a file leads through a process": {
			func(dir string) error { return relink("/proc/self/root"+outside+"/BEARER_TOKEN", dir+"/BEARER_TOKEN") },
			[]string{"PermissionDenied", `"keys"`, "BEARER_TOKEN"},
		},
		"a file leads to nothing": {
			func(dir string) error { return relink("..data/absent", dir+"/BEARER_TOKEN") },
			[]string{`"keys"`, "BEARER_TOKEN"},
		},
		"the volume is a link": {
			func(dir string) error {
				if err := unix.Unmount(dir, 0); err != nil {
					return err
				}
				return relink(outside, dir)
			},
			[]string{"InvalidArgument", `"keys"`, "folder"},
		},
		"a FIFO": {
			func(dir string) error {
				return replace(dir, func(file string) error { return unix.Mkfifo(file, 0o644) })
			},
			[]string{"NotFound", `"keys"`, "no files"},
		},
		"a device": {
			func(dir string) error {
				return replace(dir, func(file string) error { return unix.Mknod(file, unix.S_IFCHR|0o644, int(unix.Mkdev(1, 5))) })
			},
			[]string{"NotFound", `"keys"`, "no files"},
		},
		"a folder": {
			func(dir string) error {
				return replace(dir, func(file string) error { return os.Mkdir(file, 0o755) })
			},
			[]string{"NotFound", `"keys"`, "no files"},
		},
	} {
		for _, kind := range []node.Kind{node.Secret, node.Projected} {
			t.Run(name+" in "+string(kind), func(t *testing.T) {
				since := n.LogSize()
				pod := n.NewPod(t, node.PodSpec{
					Volumes:     []node.Volume{downloadVolume(), {Name: "keys", Kind: kind, Files: map[string]string{"BEARER_TOKEN": "own"}}},
					Annotations: asks(map[string]string{"model.url": url, "secret": "keys"}),
				})
				if err := c.tamper(pod.VolumeDir("keys")); err != nil {
					t.Fatal(err)
				}
				message := pod.RunFails(t)
				t.Log(message)
				contains(t, message, append(c.says, "storage.sedna.io/secret", "model")...)
				lacks(t, message+n.Log(since, 1000), canary)
				noFinalFiles(t, pod)
			})
		}
	}
	if asked := server.All(); len(asked) > 0 {
		t.Errorf("a pod with a bad secret reached the server: %v", asked)
	}
}

// replace puts something else in the place of the token that kubelet wrote.
func replace(dir string, with func(file string) error) error {
	file := filepath.Join(dir, "..data", "BEARER_TOKEN")
	if err := os.Remove(file); err != nil {
		return err
	}
	return with(file)
}

func TestSecretVolumeIsThePodsOwn(t *testing.T) {
	n := testutil.Node(t)
	server := n.Web(t)
	url := server.File("/model", []byte("x"))
	victim := n.NewPod(t, node.PodSpec{Namespace: "vision", Volumes: []node.Volume{
		{Name: "keys", Kind: node.Secret, Files: map[string]string{"BEARER_TOKEN": canary}},
	}})
	climb := "../../../../" + victim.UID + "/volumes/kubernetes.io~secret/keys"
	for name, c := range map[string]struct {
		secret  string
		volumes []node.Volume
		says    []string
	}{
		"another pod's by its name":  {"keys", nil, []string{"NotFound", "storage.sedna.io/secret", "keys", "mount"}},
		"another pod's by its path":  {climb, nil, []string{"InvalidArgument", "storage.sedna.io/secret"}},
		"an absolute path":           {victim.VolumeDir("keys"), nil, []string{"InvalidArgument", "storage.sedna.io/secret"}},
		"dots":                       {"..", nil, []string{"InvalidArgument", "storage.sedna.io/secret"}},
		"an emptyDir":                {"data", []node.Volume{{Name: "data", Files: map[string]string{"BEARER_TOKEN": canary}}}, []string{"InvalidArgument", "data", "Secret"}},
		"the volume of the download": {volume, nil, []string{"InvalidArgument", volume, "Secret"}},
	} {
		t.Run(name, func(t *testing.T) {
			failing{
				asks: map[string]string{"model.url": url, "secret": c.secret}, volumes: append([]node.Volume{downloadVolume()}, c.volumes...),
				says: c.says, others: true,
			}.run(t, n)
		})
	}
	if asked := server.All(); len(asked) > 0 {
		t.Errorf("a pod with a strange secret reached the server: %v", asked)
	}
}
