// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/node"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/web"
)

// google/gvisor#14854: what is mounted over a volume's root later stays
// invisible inside. Files must come to the very folder that kubelet made.
func TestDownloadsComeToTheFolderThatKubeletMade(t *testing.T) {
	n := testutil.Node(t)
	server := n.Web(t)
	pod := n.NewPod(t, node.PodSpec{
		Volumes:     []node.Volume{downloadVolume()},
		Annotations: asks(map[string]string{"model.url": server.File("/dir/model", []byte("weights"))}),
	})
	var before, after, file unix.Stat_t
	stat := func(name string, into *unix.Stat_t) {
		t.Helper()
		if err := unix.Lstat(name, into); err != nil {
			t.Fatal(err)
		}
	}
	stat(pod.VolumeDir(volume), &before)
	pod.Run(t)
	stat(pod.VolumeDir(volume), &after)
	stat(filepath.Join(pod.VolumeDir(volume), server.Host(), "dir", "model"), &file)

	if before.Dev != after.Dev || before.Ino != after.Ino || file.Dev != before.Dev {
		t.Error("something is mounted over the volume or in it")
	}
	if before.Mode != after.Mode || before.Uid != after.Uid || before.Gid != after.Gid {
		t.Error("mode or owner of the volume has changed")
	}
}

// openkruise/agents#698: runsc refuses Bidirectional mount propagation as
// "rshared", which nobody has written.
func TestBidirectionalPropagationIsExplainedToThePodsAuthor(t *testing.T) {
	n := testutil.Node(t)
	pod := n.RunPod(t, node.PodSpec{Volumes: []node.Volume{{Name: "data", Memory: true}}})
	// containerd wants the node's side to be shared.
	if err := unix.Mount("", pod.VolumeDir("data"), "", unix.MS_SHARED, ""); err != nil {
		t.Fatal(err)
	}
	message := pod.StartFails(t, node.ContainerSpec{
		Name: "mounter", Mounts: []node.Mount{{Volume: "data", Path: "/data"}},
		Tweak: func(c *runtimeapi.ContainerConfig) {
			c.Mounts[0].Propagation = runtimeapi.MountPropagation_PROPAGATION_BIDIRECTIONAL
		},
	})
	t.Log(message)
	contains(t, message, `container "mounter"`, "/data", "mountPropagation: Bidirectional", "HostToContainer")
}

// kserve/kserve#3792, artifact-keeper/artifact-keeper-iac#153,
// kata-containers/kata-containers#12373: the size was checked by someone else,
// too late, or temporary copies doubled it.
func TestAModelThatDoesNotFitItsVolumeIsRefusedBeforeAByteIsStored(t *testing.T) {
	n := testutil.Node(t)
	server := n.Web(t)
	pod := n.NewPod(t, node.PodSpec{
		Volumes:     []node.Volume{{Name: volume, Memory: true, SizeLimit: "4m"}},
		Annotations: asks(map[string]string{"model.url": server.File("/big", web.Bytes(8<<20))}),
	})
	message := pod.RunFails(t)
	t.Log(message)
	contains(t, message, "ResourceExhausted", "model", "4.0 MiB free", "8.0 MiB more", "sizeLimit")
	// The journal of the attempt may be there, nothing of the model.
	if usage, err := node.DiskUsage(pod.VolumeDir(volume)); err != nil || usage > 64<<10 {
		t.Errorf("%d bytes are left in the volume, error %v", usage, err)
	}
}

// The same reports: what kubelet counts is the model, once.
func TestAModelTakesItsOwnSizeInTheVolume(t *testing.T) {
	n := testutil.Node(t)
	server := n.Web(t)
	const size = 8 << 20
	pod := n.RunPod(t, node.PodSpec{
		Volumes:     []node.Volume{downloadVolume()},
		Annotations: asks(map[string]string{"model.url": server.File("/model", web.Bytes(size))}),
	})
	usage, err := node.DiskUsage(pod.VolumeDir(volume))
	if err != nil {
		t.Fatal(err)
	}
	if usage < size || usage > size+size/20 {
		t.Errorf("kubelet counts %d bytes for a model of %d", usage, size)
	}
}
