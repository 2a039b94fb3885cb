// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"maps"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/node"
)

func TestUsersShareMemoryWithTheirNeighboursAndNotWithOthers(t *testing.T) {
	n := testutil.Node(t)
	pod := n.RunPod(t, node.PodSpec{})
	one := pod.Start(t, node.ContainerSpec{User: 1000})
	two := pod.Start(t, node.ContainerSpec{User: 1000})
	other := pod.Start(t, node.ContainerSpec{User: 2000})

	one.Exec(t, "shm", "mail", "from one")
	if got := two.Exec(t, "shm", "mail"); got != "from one\n" {
		t.Errorf("the second container of this user reads %q", got)
	}
	contains(t, other.ExecFails(t, "shm", "mail"), "permission denied")
	contains(t, other.ExecFails(t, "remove", "/dev/shm/mail"), "not permitted") // mode 1777
	neighbour := n.RunPod(t, node.PodSpec{}).Start(t, node.ContainerSpec{User: 1000})
	contains(t, neighbour.ExecFails(t, "shm", "mail"), "no such file")
}

func TestAPodsOwnVolumeAtDevShmHasItsSize(t *testing.T) {
	const size = 256 << 20
	byHand := hints("shm", "tmpfs", "pod")
	maps.Copy(byHand, map[string]string{"dev.gvisor.spec.mount.shm.options": "rw,size=268435456,mode=1777"})
	for _, row := range []struct {
		name, handler string
		hint          map[string]string
		shared        bool
		mode          string
	}{
		{"for each container without a hint", node.Sedna, nil, false, "1777"},
		{"for the pod with a hint", node.Sedna, byHand, true, "1777"},
		// As kubelet made the folder: where containers will mount it isn't
		// known when the sandbox is hinted.
		{"for the pod on a node that hints", autoHints, nil, true, "0777"},
	} {
		t.Run(row.name, func(t *testing.T) {
			n := testutil.Node(t)
			pod := n.RunPod(t, node.PodSpec{
				Handler: row.handler, Annotations: row.hint,
				Volumes: []node.Volume{{Name: "shm", Memory: true, SizeLimit: "256m"}},
			})
			spec := node.ContainerSpec{User: 1000, Mounts: []node.Mount{{Volume: "shm", Path: "/dev/shm"}}}
			one, two := pod.Start(t, spec), pod.Start(t, spec)

			got := one.Stat(t, "/dev/shm")
			if got.FSBytes != size || got.FSType != unix.TMPFS_MAGIC {
				t.Errorf("it has %d bytes on %#x, not %d in memory", got.FSBytes, got.FSType, size)
			}
			if got.Mode != row.mode {
				t.Errorf("its mode is %s, not %s", got.Mode, row.mode)
			}
			if _, options := one.Mount(t, "/dev/shm"); !strings.HasPrefix(options, "rw,nosuid,noexec,") {
				t.Errorf("it is mounted with %s", options)
			}
			if got := strings.Count(one.Exec(t, "mounts"), " /dev/shm "); got != 1 {
				t.Errorf("%d file systems are mounted there", got)
			}
			one.Exec(t, "shm", "mail", "from one")
			if !row.shared {
				two.ExecFails(t, "shm", "mail")
			} else if got := two.Exec(t, "shm", "mail"); got != "from one\n" {
				t.Errorf("the second container reads %q", got)
			}
		})
	}
}
