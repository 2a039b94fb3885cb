// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"strings"
	"testing"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/node"
)

// The CRI knows no kinds of containers: init containers come first and end,
// ephemeral ones come late. All are made by the same call.
func TestInitAppAndEphemeralContainersSeeTheSame(t *testing.T) {
	n := testutil.Node(t)
	server := n.Web(t)
	dir, config := hostFolder(t, false, "*")
	put(t, dir+"/labels.txt", "labels")
	n.Configure(t, configured, config)
	pod := n.RunPod(t, node.PodSpec{
		Handler: configured,
		Volumes: []node.Volume{downloadVolume()},
		Annotations: asks(map[string]string{
			"model.url": server.File("/model", []byte("model")), "model.env": "MODEL",
			"labels.url": dir + "/labels.txt", "labels.env": "LABELS",
		}),
	})
	model, labels := downloads+"/"+server.Host()+"/model", "/hostpath"+dir+"/labels.txt"
	for _, path := range []string{model, labels} {
		init := pod.Start(t, node.ContainerSpec{Name: "init" + path[1:5], Args: []string{"cat", path}})
		if code := init.Wait(t); code != 0 {
			t.Errorf("an init container can't read %s", path)
		}
	}
	for _, name := range []string{"app", "debugger"} {
		container := pod.Start(t, node.ContainerSpec{Name: name})
		variable(t, container, "MODEL", model)
		variable(t, container, "LABELS", labels)
		holds(t, container, model, "model")
		holds(t, container, labels, "labels")
	}
}

func TestOnlyNamedContainersGetMountsAndVariables(t *testing.T) {
	n := testutil.Node(t)
	server := n.Web(t)
	dir, config := hostFolder(t, false, "*")
	put(t, dir+"/set/file", "x")
	n.Configure(t, configured, "skip_containers = [\"istio-proxy\"]\n"+config)
	wish := map[string]string{
		"model.url": server.File("/model", []byte("model")), "model.env": "MODEL",
		"set.url": dir + "/set/", "set.env": "SET",
	}
	for name, c := range map[string]struct {
		containers string
		in, out    []string
	}{
		"all but the node's skipped": {"", []string{"app", "other"}, []string{"istio-proxy"}},
		"those that the pod names":   {"app; helper", []string{"app", "helper"}, []string{"other"}},
		"never the node's skipped":   {"app;istio-proxy", []string{"app"}, []string{"istio-proxy"}},
	} {
		t.Run(name, func(t *testing.T) {
			n := testutil.Node(t)
			annotations := asks(wish)
			if c.containers != "" {
				annotations["storage.sedna.io/containers"] = c.containers
			}
			pod := n.RunPod(t, node.PodSpec{Handler: configured, Volumes: []node.Volume{downloadVolume()}, Annotations: annotations})
			for _, name := range c.in {
				container := pod.Start(t, node.ContainerSpec{Name: name})
				variable(t, container, "MODEL", downloads+"/"+server.Host()+"/model")
				holds(t, container, "/hostpath"+dir+"/set/file", "x")
			}
			for _, name := range c.out {
				container := pod.Start(t, node.ContainerSpec{Name: name})
				container.ExecFails(t, "env", "MODEL")
				container.ExecFails(t, "env", "SET")
				container.ExecFails(t, "stat", downloads)
				container.ExecFails(t, "stat", "/hostpath")
				// Its own mount of the volume stays, but nobody writes a download.
				own := pod.Start(t, node.ContainerSpec{Name: name, Mounts: []node.Mount{{Volume: volume, Path: "/mine"}}})
				holds(t, own, "/mine/"+server.Host()+"/model", "model")
				contains(t, own.ExecFails(t, "write", "/mine/new", "x"), "read-only file system")
				own.ExecFails(t, "env", "MODEL")
			}
		})
	}
}

func TestMountPathIsWhereDownloadsAppear(t *testing.T) {
	n := testutil.Node(t)
	server := n.Web(t)
	pod := n.RunPod(t, node.PodSpec{
		Volumes: []node.Volume{{Name: "models"}},
		Annotations: asks(map[string]string{
			"model.url": server.File("/model", []byte("model")), "model.env": "MODEL",
			"mount-path": "/mnt/models", "volume": "models",
		}),
	})
	container := pod.Start(t, node.ContainerSpec{})
	variable(t, container, "MODEL", "/mnt/models/"+server.Host()+"/model")
	holds(t, container, "/mnt/models/"+server.Host()+"/model", "model")
	container.ExecFails(t, "stat", downloads)
}

func TestWritableDownloadsAreEachPodsOwn(t *testing.T) {
	n := testutil.Node(t)
	server := n.Web(t)
	url := server.File("/model", []byte("model"))
	file := downloads + "/" + server.Host() + "/model"
	spec := node.PodSpec{
		Volumes:     []node.Volume{downloadVolume()},
		Annotations: asks(map[string]string{"model.url": url, "writable": "true"}),
	}
	one, two := n.RunPod(t, spec), n.RunPod(t, spec)
	first := one.Start(t, node.ContainerSpec{})
	first.Exec(t, "write", file, "changed")
	holds(t, one.Start(t, node.ContainerSpec{}), file, "changed")
	holds(t, two.Start(t, node.ContainerSpec{}), file, "model")
}

func TestSubPathOfTheDownloadVolumeShowsItsPart(t *testing.T) {
	n := testutil.Node(t)
	server := n.Web(t)
	pod := n.RunPod(t, node.PodSpec{
		Volumes: []node.Volume{downloadVolume()},
		Annotations: asks(map[string]string{
			"model.url": server.File("/models/a/model", []byte("a")), "model.env": "MODEL",
			"other.url": server.File("/others/b", []byte("b")), "other.env": "OTHER",
		}),
	})
	container := pod.Start(t, node.ContainerSpec{Mounts: []node.Mount{
		{Volume: volume, Path: "/part", SubPath: server.Host() + "/models"},
	}})
	variable(t, container, "MODEL", "/part/a/model")
	holds(t, container, "/part/a/model", "a")
	contains(t, container.ExecFails(t, "write", "/part/a/model", "x"), "read-only file system")
	// What the part doesn't show is mounted where it always is.
	other := strings.TrimSpace(container.Exec(t, "env", "OTHER"))
	if want := downloads + "/" + server.Host() + "/others/b"; other != want {
		t.Errorf("OTHER is %q, not %q", other, want)
	}
	holds(t, container, other, "b")
}

func TestMoreThanMaxBytesIsRefused(t *testing.T) {
	n := testutil.Node(t)
	server := n.Web(t)
	url := server.File("/model", make([]byte, 2<<20))
	n.Configure(t, configured, "[storage]\nmax_bytes = \"1MiB\"\n")
	for name, c := range map[string]failing{
		"the pod's own limit": {
			asks: map[string]string{"model.url": url, "max-bytes": "1Mi"},
			says: []string{"model", url, "max-bytes", "ResourceExhausted"},
		},
		"the node's limit": {
			handler: configured,
			asks:    map[string]string{"model.url": url},
			says:    []string{"model", url, "max_bytes", "ResourceExhausted"},
		},
		"the node's limit, which the pod can't raise": {
			handler: configured,
			asks:    map[string]string{"model.url": url, "max-bytes": "1Gi"},
			says:    []string{"model", url, "max_bytes", "ResourceExhausted"},
		},
	} {
		t.Run(name, func(t *testing.T) { c.run(t, testutil.Node(t)) })
	}
	pod := n.RunPod(t, node.PodSpec{
		Volumes:     []node.Volume{downloadVolume()},
		Annotations: asks(map[string]string{"model.url": url, "max-bytes": "2Mi"}),
	})
	pod.Start(t, node.ContainerSpec{}).Exec(t, "stat", downloads+"/"+server.Host()+"/model")
}
