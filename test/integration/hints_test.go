// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"maps"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/node"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/web"
)

// hints are gVisor's mount hints for an emptyDir, as a user writes them; share
// is left out when it is "".
func hints(name, kind, share string) map[string]string {
	prefix := "dev.gvisor.spec.mount." + name + "."
	annotations := map[string]string{prefix + "type": kind}
	if share != "" {
		annotations[prefix+"share"] = share
	}
	return annotations
}

// The rows of docs/volumes.md for the field share. google/gvisor#14033,
// google/gvisor#8275: one side of the protocol wrong, and the medium is
// another.
func TestTheShareOfAHintMeansWhatTheDocsSay(t *testing.T) {
	n := testutil.Node(t)
	rows := []struct {
		name, kind, share string
		fsType            int64
		shared            bool
	}{
		{"disk-container", "bind", "container", unix.TMPFS_MAGIC, true},
		{"disk-pod", "bind", "pod", unix.TMPFS_MAGIC, true},
		{"disk-shared", "bind", "shared", unix.V9FS_MAGIC, true},
		{"disk-without", "bind", "", unix.V9FS_MAGIC, true},
		{"memory-container", "tmpfs", "container", unix.TMPFS_MAGIC, true},
		{"memory-pod", "tmpfs", "pod", unix.TMPFS_MAGIC, true},
		{"memory-shared", "tmpfs", "shared", unix.TMPFS_MAGIC, false},
		{"memory-without", "tmpfs", "", unix.TMPFS_MAGIC, false},
	}
	pod := node.PodSpec{Annotations: map[string]string{}}
	var spec node.ContainerSpec
	for _, row := range rows {
		pod.Volumes = append(pod.Volumes, node.Volume{Name: row.name, Memory: row.kind == "tmpfs"})
		maps.Copy(pod.Annotations, hints(row.name, row.kind, row.share))
		spec.Mounts = append(spec.Mounts, node.Mount{Volume: row.name, Path: "/" + row.name})
	}
	since := n.LogSize()
	running := n.RunPod(t, pod)
	one, two := running.Start(t, spec), running.Start(t, spec)

	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			if got := one.Stat(t, "/"+row.name).FSType; got != row.fsType {
				t.Errorf("its file system is %#x, not %#x", got, row.fsType)
			}
			one.Exec(t, "write", "/"+row.name+"/mail", "from one")
			if row.shared {
				holds(t, two, "/"+row.name+"/mail", "from one")
				return
			}
			two.ExecFails(t, "stat", "/"+row.name+"/mail")
			if len(lines(n.Log(since, 1000), "level=warning", row.name, "each container gets a volume of its own")) == 0 {
				t.Error("no line in the log says that it isn't shared")
			}
		})
	}
}

// What docs/volumes.md says of options that are stricter than a mount's.
func TestTheOptionsOfAHintHoldForEveryContainer(t *testing.T) {
	n := testutil.Node(t)
	pod := node.PodSpec{Volumes: []node.Volume{{Name: "ro"}, {Name: "noexec"}}, Annotations: hints("ro", "bind", "pod")}
	maps.Copy(pod.Annotations, hints("noexec", "bind", "pod"))
	for _, option := range []string{"ro", "noexec"} {
		pod.Annotations["dev.gvisor.spec.mount."+option+".options"] = option
	}
	since := n.LogSize()
	running := n.RunPod(t, pod)
	mounts := func(volume string, readOnly bool) node.ContainerSpec {
		return node.ContainerSpec{Mounts: []node.Mount{{Volume: volume, Path: "/v", ReadOnly: readOnly}}}
	}

	contains(t, running.Start(t, mounts("ro", true)).ExecFails(t, "write", "/v/x", "x"), "read-only file system")
	contains(t, running.StartFails(t, mounts("ro", false)), "master is read-only")
	contains(t, running.StartFails(t, mounts("noexec", false)), "master is noexec")
	if len(lines(n.Log(since, 1000), "level=warning", "option noexec in its hint")) == 0 {
		t.Error("no line in the log says that no container can mount the volume")
	}
}

// downloadHint is a hint that a user could write for a volume that receives
// downloads.
type downloadHint struct {
	handler, kind, share, access string
	memory                       bool
}

func (h downloadHint) String() string {
	if h.kind == "" {
		return "no hint on " + h.handler
	}
	return fmt.Sprint(h.kind, " ", h.share, " ", h.access)
}

func (h downloadHint) annotations() map[string]string {
	if h.kind == "" {
		return map[string]string{}
	}
	annotations := hints(volume, h.kind, h.share)
	annotations["dev.gvisor.spec.mount."+volume+".options"] = h.access
	return annotations
}

func downloadHints() []downloadHint {
	all := []downloadHint{{handler: node.Sedna}, {handler: autoHints, memory: true}}
	for _, kind := range []string{"tmpfs", "bind"} {
		for _, share := range []string{"container", "pod", "shared"} {
			for _, access := range []string{"ro", "rw"} {
				// Every kind and share meets both media.
				all = append(all, downloadHint{node.Sedna, kind, share, access, access == "rw"})
			}
		}
	}
	return all
}

// google/gvisor#13595, kata-containers/kata-containers#2053,
// kata-containers/runtime#2518, kuasar-io/kuasar#138,
// kubernetes-sigs/gcp-filestore-csi-driver#1314: a sandbox's own tmpfs hides
// what the node has put into the volume.
func TestDownloadVolumeIsReadableWhateverItsHint(t *testing.T) {
	n := testutil.Node(t)
	server := n.Web(t)
	model := web.Bytes(100_000)
	url := server.File("/model", model)
	for _, hint := range downloadHints() {
		t.Run(hint.String(), func(t *testing.T) {
			n := testutil.Node(t)
			annotations := hint.annotations()
			maps.Copy(annotations, asks(map[string]string{"model.url": url, "model.env": "MODEL"}))
			since := n.LogSize()
			pod := n.RunPod(t, node.PodSpec{
				Handler: hint.handler, Annotations: annotations,
				Volumes: []node.Volume{{Name: volume, Memory: hint.memory}},
			})
			check := func(c testutil.TestContainer, root string) {
				t.Helper()
				dir := root + "/" + server.Host()
				variable(t, c, "MODEL", dir+"/model")
				sameFiles(t, c.Tree(t, dir), map[string][]byte{"model": model})
				contains(t, c.ExecFails(t, "write", dir+"/model", "evil"), "read-only file system")
				contains(t, c.ExecFails(t, "mkdir", root+"/mine"), "read-only file system")
			}
			first := node.ContainerSpec{Name: "first"}
			one := pod.Start(t, first)
			check(one, downloads)
			check(pod.Start(t, node.ContainerSpec{Mounts: []node.Mount{{Volume: volume, Path: "/own"}}}), "/own")
			one.Stop(t)
			check(pod.Start(t, first), downloads)

			overruled := hint.kind != "" && (hint.kind != "bind" || hint.share != "shared")
			if said := len(lines(n.Log(since, 1000), "level=warning", volume, "receives downloads")) > 0; said != overruled {
				t.Errorf("the log says that the hint is overruled: %t, it should: %t", said, overruled)
			}
		})
	}
}
