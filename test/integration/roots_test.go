// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/binaries"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/node"
)

// Where kubelet may have its root.
const (
	defaultRoot = "/var/lib/kubelet"
	otherRoot   = node.Dir + "/other-kubelet"
	rootLink    = node.Dir + "/kubelet-link"
)

// emptyVar lays an empty /var over the machine's for the time of the test, so
// that it may hold whatever a distribution has there.
func emptyVar(t *testing.T) {
	t.Helper()
	ours, tools, err := binaries.Dirs()
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasPrefix(ours, "/var/") || strings.HasPrefix(tools, "/var/") {
		t.Skip("needs our programs outside /var, which it hides")
	}
	if err := unix.Mount("tmpfs", "/var", "tmpfs", 0, "mode=0755"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount("/var", unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	// containerd keeps network namespaces in /var/run.
	if err := os.Symlink("/run", "/var/run"); err != nil {
		t.Fatal(err)
	}
}

// link makes a symbolic link at name to a folder, for the time of the test.
func link(t *testing.T, name, target string) {
	t.Helper()
	if err := os.MkdirAll(target, 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(name) })
}

// minio/directpv#11, openebs/rawfile-localpv#233, canonical/microk8s#5125,
// hetznercloud/csi-driver#536, kubeedge/kubeedge#1220: a fixed kubelet root
// fails wherever it is another.
func TestVolumesAreFoundWhereverKubeletKeepsThem(t *testing.T) {
	n := testutil.Node(t)
	emptyVar(t)
	server := n.Web(t)
	annotations := hints("scratch", "bind", "pod")
	maps.Copy(annotations, asks(map[string]string{"model.url": server.File("/model", []byte("weights"))}))
	for _, row := range []struct {
		name, handler, root string
		link                string // makes root a link to it
		shows               []node.Volume
	}{
		{name: "a configured link", handler: linkedRoot, root: rootLink, link: otherRoot},
		{name: "the default", handler: anyRoot, root: defaultRoot},
		{name: "the default, a link", handler: anyRoot, root: defaultRoot, link: otherRoot},
		{name: "k0s", handler: anyRoot, root: "/var/lib/k0s/kubelet"},
		{name: "MicroK8s", handler: anyRoot, root: "/var/snap/microk8s/common/var/lib/kubelet"},
		{name: "KubeEdge", handler: anyRoot, root: "/var/lib/edged"},
		{
			name: "shown by a memory volume", handler: anyRoot, root: otherRoot,
			shows: []node.Volume{{Name: "memory", Memory: true}},
		},
		{
			name: "shown by a token, behind a link", handler: anyRoot, root: rootLink, link: otherRoot,
			shows: []node.Volume{{Name: "token", Kind: node.Projected, Files: map[string]string{"token": "t"}}},
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			if row.link != "" {
				if err := os.RemoveAll(row.root); err != nil { // of the row before
					t.Fatal(err)
				}
				link(t, row.root, row.link)
			}
			pod := n.RunPod(t, node.PodSpec{
				Handler: row.handler, KubeletRoot: row.root, Annotations: annotations,
				Volumes: append([]node.Volume{downloadVolume(), {Name: "scratch"}}, row.shows...),
			})
			container := pod.Start(t, node.ContainerSpec{Mounts: []node.Mount{
				{Volume: "scratch", Path: "/scratch"}, {Volume: volume, Path: "/model"},
			}})
			holds(t, container, "/model/"+server.Host()+"/model", "weights")
			contains(t, container.ExecFails(t, "mkdir", "/model/mine"), "read-only file system")
			if got, _ := container.Mount(t, "/scratch"); got != "tmpfs" {
				t.Errorf("the hinted volume is a %s", got)
			}
		})
	}
}

func TestARootThatNothingShowsIsAskedFor(t *testing.T) {
	n := testutil.Node(t)
	server := n.Web(t)
	pod := n.NewPod(t, node.PodSpec{
		Handler: anyRoot, KubeletRoot: otherRoot, Volumes: []node.Volume{downloadVolume()},
		Annotations: asks(map[string]string{"model.url": server.File("/model", []byte("weights"))}),
	})
	message := pod.RunFails(t)
	t.Log(message)
	for _, root := range []string{defaultRoot, "/var/lib/k0s/kubelet", "/var/snap/microk8s/common/var/lib/kubelet"} {
		contains(t, message, root+"/pods/"+pod.UID+"/volumes/*/"+volume)
	}
	contains(t, message, "storage.sedna.io/volume", "set kubelet_root in the shim's config to kubelet's --root-dir")
	noFinalFiles(t, pod)
}

// gVisor's own shim fails such a pod, with its hard-coded root.
func TestAHintForAVolumeThatIsNotFoundIsDropped(t *testing.T) {
	n := testutil.Node(t)
	since := n.LogSize()
	pod := n.RunPod(t, node.PodSpec{
		Handler: anyRoot, KubeletRoot: otherRoot,
		Volumes: []node.Volume{{Name: "scratch"}}, Annotations: hints("scratch", "bind", "pod"),
	})
	container := pod.Start(t, node.ContainerSpec{Mounts: []node.Mount{{Volume: "scratch", Path: "/scratch"}}})
	container.Exec(t, "write", "/scratch/mail", "on the node")
	if got := node.Entries(pod.VolumeDir("scratch")); len(got) != 1 || got[0] != "mail" {
		t.Errorf("the node sees %q", got)
	}
	if len(lines(n.Log(since, 1000), "level=warning", "so its hints are removed", defaultRoot+"/pods/"+pod.UID+"/volumes/*/scratch")) == 0 {
		t.Error("no line in the log says where the volume was looked for")
	}
}
