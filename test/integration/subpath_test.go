// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"maps"
	"testing"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/node"
)

// whole and part are two containers' mounts of one volume.
func whole(volume string) node.ContainerSpec {
	return node.ContainerSpec{Name: "whole", Mounts: []node.Mount{{Volume: volume, Path: "/whole"}}}
}

func part(volume, subPath string) node.ContainerSpec {
	return node.ContainerSpec{Name: "part", Mounts: []node.Mount{{Volume: volume, Path: "/part", SubPath: subPath}}}
}

// kata-containers/kata-containers#12218, google/gvisor#11345: a subPath comes
// from another path of the node and showed another file system than the volume.
func TestASubPathOfTheDownloadVolumeShowsTheModel(t *testing.T) {
	n := testutil.Node(t)
	server := n.Web(t)
	url := server.File("/m/model.bin", []byte("weights"))
	for _, row := range []struct {
		name, handler string
		hint          map[string]string
		writable      string
	}{
		{"read-only, without a hint", node.Sedna, nil, "false"},
		{"read-only, on a node that hints", autoHints, nil, "false"},
		{"writable, with a hint", node.Sedna, hints(volume, "tmpfs", "pod"), "true"},
	} {
		t.Run(row.name, func(t *testing.T) {
			n := testutil.Node(t)
			annotations := asks(map[string]string{"model.url": url, "model.env": "MODEL", "writable": row.writable})
			maps.Copy(annotations, row.hint)
			pod := n.RunPod(t, node.PodSpec{Handler: row.handler, Volumes: []node.Volume{downloadVolume()}, Annotations: annotations})
			all := pod.Start(t, whole(volume))
			some := pod.Start(t, part(volume, server.Host()+"/m"))

			for c, file := range map[testutil.TestContainer]string{all: "/whole/" + server.Host() + "/m/model.bin", some: "/part/model.bin"} {
				variable(t, c, "MODEL", file)
				holds(t, c, file, "weights")
			}
			if row.writable == "false" {
				contains(t, some.ExecFails(t, "write", "/part/model.bin", "evil"), "read-only file system")
				return
			}
			all.Exec(t, "write", "/whole/"+server.Host()+"/m/more", "more")
			holds(t, some, "/part/more", "more")
		})
	}
}

func TestASubPathOfAVolumeWithoutAHintIsAPartOfIt(t *testing.T) {
	n := testutil.Node(t)
	pod := n.RunPod(t, node.PodSpec{Volumes: []node.Volume{{Name: "data"}}})
	all, some := pod.Start(t, whole("data")), pod.Start(t, part("data", "dir"))

	all.Exec(t, "write", "/whole/dir/mail", "from the whole")
	holds(t, some, "/part/mail", "from the whole")
	some.Exec(t, "write", "/part/answer", "from the part")
	holds(t, all, "/whole/dir/answer", "from the part")
}

func TestASubPathOfAVolumeInsideIsRefusedOnANodeThatHints(t *testing.T) {
	n := testutil.Node(t)
	pod := n.RunPod(t, node.PodSpec{
		Handler:     autoHints,
		Volumes:     []node.Volume{{Name: "cache"}, {Name: "plain"}},
		Annotations: map[string]string{"dev.gvisor.empty-dir.plain.force-shared": "true"},
	})
	all := pod.Start(t, whole("cache"))

	message := pod.StartFails(t, part("cache", "dir"))
	t.Log(message)
	contains(t, message, `container "part" mounts volume "cache" by subPath at /part`, "mount the whole volume",
		`dev.gvisor.empty-dir.cache.force-shared: "true"`)
	all.Exec(t, "write", "/whole/mail", "still here")

	pod.Start(t, node.ContainerSpec{Name: "other", Mounts: whole("plain").Mounts}).Exec(t, "write", "/whole/dir", "")
}

// Where the pod's author wrote the hint, it is a warning.
func TestASubPathOfAVolumeHintedByHandIsWarnedOf(t *testing.T) {
	n := testutil.Node(t)
	since := n.LogSize()
	pod := n.RunPod(t, node.PodSpec{Volumes: []node.Volume{{Name: "cache"}}, Annotations: hints("cache", "bind", "pod")})
	pod.Start(t, part("cache", "dir"))
	if len(lines(n.Log(since, 1000), `mounts volume \"cache\" by subPath at /part`)) == 0 {
		t.Error("no line in the log says that the subPath isn't a part of the volume")
	}
}
