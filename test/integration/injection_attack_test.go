// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"strings"
	"testing"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/node"
)

// Sidecars that somebody else injected get a pod's mounts and variables too.
func TestVariablesAndMountPathsThatRunCodeAreRefused(t *testing.T) {
	n := testutil.Node(t)
	server := n.Web(t)
	url := server.File("/evil.so", []byte("x"))
	cases := map[string]map[string]string{}
	for _, name := range []string{
		"LD_PRELOAD", "ld_preload", "LD_LIBRARY_PATH", "PATH", "GCONV_PATH", "PYTHONPATH", "PERL5LIB", "RUBYOPT",
		"NODE_OPTIONS", "JAVA_TOOL_OPTIONS", "BASH_ENV", "HTTPS_PROXY", "SSL_CERT_FILE", "A=B", "A B", "1A",
	} {
		cases["env "+name] = map[string]string{"model.env": name}
	}
	for _, path := range []string{
		"/", "/etc", "/etc/ld.so.preload", "/proc", "/proc/self", "/sys", "/dev", "/dev/shm", "/usr/lib", "/bin", "/sbin", "/lib",
		"/lib64", "/var/run/secrets", "/var/run", "/var", "/run", "/a/../etc", "//etc", "/./etc", "relative", "/hostpath/x", "/a:b",
	} {
		cases["mount-path "+path] = map[string]string{"mount-path": path}
	}
	for name, asked := range cases {
		t.Run(name, func(t *testing.T) {
			key, _, _ := strings.Cut(name, " ")
			asked["model.url"] = url
			failing{asks: asked, says: []string{"InvalidArgument", "storage.sedna.io/", key}}.run(t, n)
			nothingMounted(t)
		})
	}
	if asked := server.All(); len(asked) > 0 {
		t.Errorf("something was fetched: %v", asked)
	}
}

func TestMountsOverAContainersOwnMountsAreRefused(t *testing.T) {
	n := testutil.Node(t)
	server := n.Web(t)
	dir, config := hostFolder(t, false, "*")
	put(t, dir+"/set/file", "x")
	n.Configure(t, configured, config)
	pod := n.RunPod(t, node.PodSpec{
		Handler: configured,
		Volumes: []node.Volume{downloadVolume(), {Name: "data", Files: map[string]string{"own": "own"}}},
		Annotations: asks(map[string]string{
			"model.url": server.File("/model", []byte("x")), "mount-path": "/data/models", "model.env": "MODEL",
			"set.url": dir + "/set/",
		}),
	})
	for name, path := range map[string]string{
		"at a mount":                "/data/models",
		"below a mount":             "/data",
		"above a mount":             "/data/models/inner",
		"a host path at a mount":    "/hostpath" + dir + "/set",
		"a host path below a mount": "/hostpath",
		"a host path above a mount": "/hostpath" + dir + "/set/inner",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := pod.Pod.Start(testutil.Context(t), node.ContainerSpec{
				Name: "victim", Mounts: []node.Mount{{Volume: "data", Path: path}},
			})
			if err == nil {
				t.Fatal("the container started")
			}
			t.Log(err)
			contains(t, err.Error(), "victim", path, "InvalidArgument", "in the way", "mount-path")
		})
	}
	// Its neighbours are as they were.
	container := pod.Start(t, node.ContainerSpec{Name: "neighbour", Mounts: []node.Mount{{Volume: "data", Path: "/elsewhere"}}})
	holds(t, container, "/elsewhere/own", "own")
	holds(t, container, "/data/models/"+server.Host()+"/model", "x")
}
