// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/node"
)

// hints are gVisor's mount hints for an emptyDir, as a user writes them.
func hints(name, kind, share string) map[string]string {
	prefix := "dev.gvisor.spec.mount." + name + "."
	return map[string]string{prefix + "type": kind, prefix + "share": share, prefix + "options": "rw"}
}

func TestHintedMemoryVolumeIsSharedTmpfsInside(t *testing.T) {
	n := testutil.Node(t)
	pod := n.RunPod(t, node.PodSpec{
		Volumes:     []node.Volume{{Name: "scratch", Memory: true}},
		Annotations: hints("scratch", "tmpfs", "pod"),
	})
	spec := node.ContainerSpec{Mounts: []node.Mount{{Volume: "scratch", Path: "/scratch"}}}
	one, two := pod.Start(t, spec), pod.Start(t, spec)

	if kind := one.Stat(t, "/scratch").FSType; kind != unix.TMPFS_MAGIC {
		t.Errorf("the volume's file system is %#x, not a tmpfs", kind)
	}
	one.Exec(t, "write", "/scratch/mail", "from one")
	if got := two.Exec(t, "cat", "/scratch/mail"); got != "from one" {
		t.Errorf("the second container reads %q", got)
	}
	if found := node.Entries(pod.VolumeDir("scratch")); len(found) != 0 {
		t.Errorf("the node sees %v in a volume that lives in the sandbox", found)
	}
}

func TestDownloadVolumeIsReadableWhateverItsHint(t *testing.T) {
	n := testutil.Node(t)
	server := n.Web(t)
	for _, kind := range []string{"tmpfs", "bind"} {
		for _, share := range []string{"container", "pod", "shared"} {
			t.Run(kind+" "+share, func(t *testing.T) {
				n := testutil.Node(t)
				annotations := hints(volume, kind, share)
				for key, value := range asks(map[string]string{"model.url": server.File("/model", []byte("x"))}) {
					annotations[key] = value
				}
				pod := n.RunPod(t, node.PodSpec{Volumes: []node.Volume{downloadVolume()}, Annotations: annotations})
				for range 2 {
					container := pod.Start(t, node.ContainerSpec{})
					if got := container.Exec(t, "cat", downloads+"/"+server.Host()+"/model"); got != "x" {
						t.Errorf("the model holds %q", got)
					}
				}
			})
		}
	}
	_ = n
}
