// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/google/go-cmp/cmp"
	specs "github.com/opencontainers/runtime-spec/specs-go"
)

// kubelet makes a kubelet root with one emptyDir of our pod, at path below a
// temporary folder.
func kubelet(t *testing.T, path string) (root string) {
	t.Helper()
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	root = filepath.Join(top, path)
	makeTree(t, filepath.Join(root, "pods", ownUID, "volumes"), emptyDirPlugin+"/models/", "kubernetes.io~configmap/settings/")
	return root
}

// noOtherRoots keeps the node that runs the tests out of them.
func noOtherRoots(t *testing.T) {
	t.Helper()
	roots, mounts := otherRoots, mountInfo
	t.Cleanup(func() { otherRoots, mountInfo = roots, mounts })
	otherRoots, mountInfo = nil, filepath.Join(t.TempDir(), "none")
}

func locate(t *testing.T, spec *specs.Spec, n Node) *PodVolumes {
	t.Helper()
	v, err := Locate(spec, ownUID, n)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// canonical/microk8s#5125, openebs/rawfile-localpv#233, kubeedge/kubeedge#1220
// and others: a fixed root fails on half the distributions.
func TestTheKubeletRootIsFound(t *testing.T) {
	noOtherRoots(t)
	none := filepath.Join(t.TempDir(), "none")
	tests := map[string]func(root string) (*specs.Spec, Node){
		"where the config says": func(root string) (*specs.Spec, Node) {
			return new(specs.Spec), Node{KubeletRoot: root}
		},
		"behind a symbolic link": func(root string) (*specs.Spec, Node) {
			link := filepath.Join(t.TempDir(), "kubelet")
			if err := os.Symlink(root, link); err != nil {
				t.Fatal(err)
			}
			return new(specs.Spec), Node{KubeletRoot: link}
		},
		"by the source of a container's mount": func(root string) (*specs.Spec, Node) {
			source := filepath.Join(root, "pods", ownUID, "volumes", "kubernetes.io~csi", "x", "mount")
			return container(bind("/etc", "/etc"), bind(source, "/x")), Node{KubeletRoot: none}
		},
		"by a subPath's source": func(root string) (*specs.Spec, Node) {
			source := filepath.Join(root, "pods", ownUID, "volume-subpaths", "x", "main", "0")
			return container(bind(source, "/x")), Node{KubeletRoot: none}
		},
		"by the node's mounts": func(root string) (*specs.Spec, Node) {
			token := filepath.Join(root, "pods", ownUID, "volumes", projectedPlugin, "kube-api-access-x")
			lines := "22 1 0:21 / / rw - ext4 /dev/sda rw\nshort\n" +
				"23 22 0:22 / " + strings.ReplaceAll(token, " ", `\040`) + " rw,relatime shared:1 - tmpfs tmpfs rw,size=8k\n"
			mountInfo = filepath.Join(t.TempDir(), "mountinfo")
			makeTree(t, filepath.Dir(mountInfo), "./")
			if err := os.WriteFile(mountInfo, []byte(lines), 0o600); err != nil {
				t.Fatal(err)
			}
			return new(specs.Spec), Node{KubeletRoot: none}
		},
		"where a distribution puts it": func(root string) (*specs.Spec, Node) {
			otherRoots = []string{none, root}
			return new(specs.Spec), Node{KubeletRoot: none}
		},
	}
	for name, test := range tests {
		for _, place := range []string{"lib/k0s/kubelet", "with space/kubelet"} {
			t.Run(name+" "+place, func(t *testing.T) {
				noOtherRoots(t)
				root := kubelet(t, place)
				v := locate(t, first2(test(root)), second2(test(root)))
				if got := v.PodsDir(); got != filepath.Join(root, "pods") {
					t.Errorf("PodsDir %s", got)
				}
				path, err := v.EmptyDir("models")
				if err != nil || path != filepath.Join(root, "pods", ownUID, "volumes", emptyDirPlugin, "models") {
					t.Errorf("%s, %v", path, err)
				}
			})
		}
	}
}

func first2[A, B any](a A, _ B) A  { return a }
func second2[A, B any](_ A, b B) B { return b }

func TestAnEmptyDirThatIsNotThereIsExplained(t *testing.T) {
	noOtherRoots(t)
	root := kubelet(t, "kubelet")
	makeTree(t, filepath.Join(root, "pods", ownUID, "volumes", emptyDirPlugin), "file")
	if err := os.Symlink("/etc", filepath.Join(root, "pods", ownUID, "volumes", emptyDirPlugin, "link")); err != nil {
		t.Fatal(err)
	}
	elsewhere := t.TempDir()
	for _, test := range []struct {
		name, root, uid string
		is              func(error) bool
		parts           []string
	}{
		{"absent", root, ownUID, errdefs.IsNotFound, []string{`"absent"`, root + "/pods/" + ownUID + "/volumes/*/absent", "no container mounts", "emptyDir"}},
		{"models", elsewhere, ownUID, errdefs.IsNotFound, []string{elsewhere + "/pods/" + ownUID + "/volumes/*/models", "kubelet_root"}},
		{"settings", root, ownUID, errdefs.IsInvalidArgument, []string{"kubernetes.io~configmap", "not an emptyDir"}},
		{"models", root, "", errdefs.IsNotFound, []string{"uid"}},
		{"file", root, ownUID, errdefs.IsInvalidArgument, []string{"not a folder"}},
		{"link", root, ownUID, errdefs.IsInvalidArgument, []string{"not a folder"}},
		{"..", root, ownUID, errdefs.IsInvalidArgument, nil},
		{"../x", root, ownUID, errdefs.IsInvalidArgument, nil},
		{"*", root, ownUID, errdefs.IsInvalidArgument, nil},
		{"", root, ownUID, errdefs.IsInvalidArgument, nil},
	} {
		v, err := Locate(new(specs.Spec), test.uid, Node{KubeletRoot: test.root})
		if err != nil {
			t.Fatal(err)
		}
		_, err = v.EmptyDir(test.name)
		if !test.is(err) {
			t.Errorf("%q: error %v", test.name, err)
			continue
		}
		for _, part := range test.parts {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q: the error lacks %q: %v", test.name, part, err)
			}
		}
		if strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: the error has several lines: %v", test.name, err)
		}
	}
}

func TestLocateRefuses(t *testing.T) {
	for _, uid := range []string{"..", ".", "a/b", "*", "[a-z]", "a\x00b"} {
		if _, err := Locate(new(specs.Spec), uid, Node{}); !errdefs.IsInvalidArgument(err) {
			t.Errorf("uid %q: error %v", uid, err)
		}
	}
	if _, err := Locate(new(specs.Spec), ownUID, Node{KubeletRoot: "var/lib"}); !errdefs.IsInvalidArgument(err) {
		t.Errorf("a relative root: error %v", err)
	}
}

// secretVolume lays out files as kubelet's atomic writer does: kubernetes
// pkg/volume/util/atomic_writer.go.
func secretVolume(t *testing.T, plugin string, files map[string]string) (v *PodVolumes, dir string) {
	t.Helper()
	noOtherRoots(t)
	root := kubelet(t, "kubelet")
	dir = filepath.Join(root, "pods", ownUID, "volumes", plugin, "creds")
	const data = "..2026_11_30_19_00_00.123"
	makeTree(t, filepath.Join(dir, data), "./")
	for name, content := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, data, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, data, name), []byte(content), 0o400); err != nil {
			t.Fatal(err)
		}
		top, _, _ := strings.Cut(name, "/")
		link(t, filepath.Join("..data", top), filepath.Join(dir, top))
	}
	link(t, data, filepath.Join(dir, "..data"))
	return locate(t, new(specs.Spec), Node{KubeletRoot: root}), dir
}

func link(t *testing.T, target, path string) {
	t.Helper()
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
}

func TestASecretsFilesAreReadThroughKubeletsLinks(t *testing.T) {
	for _, plugin := range []string{secretPlugin, projectedPlugin} {
		v, dir := secretVolume(t, plugin, map[string]string{
			"ACCESS_KEY_ID": "key", "ca.crt": "pem", ".hidden": "h", "sub/token": "deep", "empty": "",
		})
		makeTree(t, dir, "plain", "folder/", "..writing")
		got, err := v.Secret("creds")
		if err != nil {
			t.Fatal(err)
		}
		want := map[string][]byte{"ACCESS_KEY_ID": []byte("key"), "ca.crt": []byte("pem"), ".hidden": []byte("h"), "empty": {}, "plain": []byte("plain")}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", plugin, diff)
		}
	}
}

func TestASecretThatLeadsOutIsRefused(t *testing.T) {
	outside := t.TempDir()
	makeTree(t, outside, "shadow")
	for name, target := range map[string]string{
		"by an absolute link": filepath.Join(outside, "shadow"),
		"by a relative link":  "../../../../../../../../../../../../etc/hostname",
		"by its own volume":   "../creds/..data/key", // leaves the folder and comes back
		"into nothing":        "nothing",
	} {
		t.Run(name, func(t *testing.T) {
			v, dir := secretVolume(t, secretPlugin, map[string]string{"key": "k"})
			link(t, target, filepath.Join(dir, "evil"))
			files, err := v.Secret("creds")
			if !errdefs.IsPermissionDenied(err) || !strings.Contains(err.Error(), "evil") || !strings.Contains(err.Error(), "creds") {
				t.Errorf("files %v, error %v", files, err)
			}
		})
	}
}

func TestASecretIsBounded(t *testing.T) {
	many := map[string]string{}
	for i := range maxSecretFiles + 1 {
		many[fmt.Sprint("k", i)] = ""
	}
	for name, files := range map[string]map[string]string{
		"in files": many,
		"in bytes": {"a": strings.Repeat("x", maxSecretBytes/2+1), "b": strings.Repeat("x", maxSecretBytes/2)},
	} {
		t.Run(name, func(t *testing.T) {
			v, _ := secretVolume(t, secretPlugin, files)
			if _, err := v.Secret("creds"); !errdefs.IsResourceExhausted(err) {
				t.Errorf("error %v", err)
			}
		})
	}
}

// kubeedge/kubeedge#1220: after a restart of the agent the folder may be empty.
func TestASecretWithoutFilesIsNotAnonymous(t *testing.T) {
	v, dir := secretVolume(t, secretPlugin, nil)
	if err := syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := v.Secret("creds"); !errdefs.IsNotFound(err) || !strings.Contains(err.Error(), "has no files") {
		t.Errorf("error %v", err)
	}
	if _, err := v.Secret("gone"); !errdefs.IsNotFound(err) || !strings.Contains(err.Error(), "no container mounts") {
		t.Errorf("error %v", err)
	}
	if _, err := v.Secret("models"); !errdefs.IsInvalidArgument(err) {
		t.Errorf("an emptyDir: error %v", err)
	}
}
