// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/node"
)

// hostFolder is a folder of the node that pods of the given namespaces may
// mount, and a config.toml that says so.
func hostFolder(t *testing.T, writable bool, namespaces ...string) (dir, config string) {
	t.Helper()
	dir = t.TempDir()
	config = fmt.Sprintf("\n[[host_path]]\npath = %q\nwritable = %t\nnamespaces = [\"%s\"]\n",
		dir, writable, strings.Join(namespaces, `", "`))
	return dir, config
}

// put writes a file of the node, with the folders it needs.
func put(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// variable fails unless a container sees a variable with this value.
func variable(t *testing.T, container testutil.TestContainer, name, want string) {
	t.Helper()
	if got := strings.TrimSuffix(container.Exec(t, "env", name), "\n"); got != want {
		t.Errorf("%s is %q, not %q", name, got, want)
	}
}

// holds fails unless a container reads this from a file.
func holds(t *testing.T, container testutil.TestContainer, file, want string) {
	t.Helper()
	if got := container.Exec(t, "cat", file); got != want {
		t.Errorf("%s holds %q, not %q", file, got, want)
	}
}

func TestContainersReadAFolderAndAFileOfTheNode(t *testing.T) {
	n := testutil.Node(t)
	dir, config := hostFolder(t, false, "*")
	n.Configure(t, configured, config)
	put(t, dir+"/set/deep/sample", "sample")
	put(t, dir+"/labels/labels.txt", "labels")
	pod := n.RunPod(t, node.PodSpec{Handler: configured, Annotations: asks(map[string]string{
		"set.url": dir + "/set", "set.dir": "true", "set.env": "SET",
		"labels.url": dir + "/labels/labels.txt", "labels.env": "LABELS",
	})})
	for range 2 {
		container := pod.Start(t, node.ContainerSpec{})
		variable(t, container, "SET", "/hostpath"+dir+"/set")
		variable(t, container, "LABELS", "/hostpath"+dir+"/labels/labels.txt")
		holds(t, container, "/hostpath"+dir+"/set/deep/sample", "sample")
		holds(t, container, "/hostpath"+dir+"/labels/labels.txt", "labels")
		for _, attempt := range [][]string{
			{"write", "/hostpath" + dir + "/set/new", "evil"},
			{"write", "/hostpath" + dir + "/labels/labels.txt", "evil"},
			{"remove", "/hostpath" + dir + "/set/deep/sample"},
			{"chmod", "/hostpath" + dir + "/set/deep/sample"},
		} {
			contains(t, container.ExecFails(t, attempt...), "read-only file system")
		}
		container.ExecFails(t, "stat", "/hostpath"+dir+"/other")
	}
}

func TestWhatAContainerWritesToAWritableFolderIsOnTheNode(t *testing.T) {
	n := testutil.Node(t)
	dir, config := hostFolder(t, true, "default")
	n.Configure(t, configured, config)
	put(t, dir+"/out/before", "node")
	put(t, dir+"/in/sample", "sample")
	pod := n.RunPod(t, node.PodSpec{Handler: configured, Annotations: asks(map[string]string{
		"out.url": dir + "/out", "out.dir": "true", "out.mode": "writeonly", "out.env": "OUT",
		"in.url": dir + "/in/", "in.env": "IN",
		"new.url": dir + "/out/not-yet", "new.mode": "writeonly",
		"all.url": dir + "/",
	})})
	container := pod.Start(t, node.ContainerSpec{})
	variable(t, container, "OUT", "/hostpath"+dir+"/out")
	container.Exec(t, "write", "/hostpath"+dir+"/out/result", "result")
	if got, err := os.ReadFile(dir + "/out/result"); err != nil || string(got) != "result" {
		t.Errorf("on the node the result is %q: %v", got, err)
	}
	put(t, dir+"/out/later", "later")
	holds(t, container, "/hostpath"+dir+"/out/later", "later")
	contains(t, container.ExecFails(t, "write", "/hostpath"+dir+"/new", "evil"), "read-only file system")
	// A mount that only reads is read-only below a writable root too.
	holds(t, container, "/hostpath"+dir+"/in/sample", "sample")
	contains(t, container.ExecFails(t, "write", "/hostpath"+dir+"/in/sample", "evil"), "read-only file system")
}

func TestWriteOnlyMountOfAFolderThatIsNotWritableIsReadOnly(t *testing.T) {
	n := testutil.Node(t)
	dir, config := hostFolder(t, false, "*")
	n.Configure(t, configured, config)
	put(t, dir+"/out/before", "node")
	pod := n.RunPod(t, node.PodSpec{Handler: configured, Annotations: asks(map[string]string{
		"out.url": dir + "/out", "out.dir": "true", "out.mode": "writeonly",
	})})
	container := pod.Start(t, node.ContainerSpec{})
	contains(t, container.ExecFails(t, "write", "/hostpath"+dir+"/out/result", "x"), "read-only file system")
}

func TestVariableJoinsDownloadsHostPathsAndPathsInTheContainer(t *testing.T) {
	n := testutil.Node(t)
	dir, config := hostFolder(t, false, "*")
	n.Configure(t, configured, config)
	put(t, dir+"/labels.txt", "labels")
	server := n.Web(t)
	url := server.File("/m/model", []byte("model"))
	result := "https://results.example.com/put"
	pod := n.RunPod(t, node.PodSpec{
		Handler: configured,
		Volumes: []node.Volume{downloadVolume()},
		Annotations: asks(map[string]string{
			"all.url": url + "; " + dir + "/labels.txt ;file:///etc/model.json", "all.env": "ALL",
			"out.url": result, "out.mode": "writeonly", "out.env": "OUT",
		}),
	})
	container := pod.Start(t, node.ContainerSpec{})
	model, labels := downloads+"/"+server.Host()+"/m/model", "/hostpath"+dir+"/labels.txt"
	variable(t, container, "ALL", model+";"+labels+";/etc/model.json")
	variable(t, container, "OUT", result)
	holds(t, container, model, "model")
	holds(t, container, labels, "labels")
}

func TestCheckHostPathDropsWhatIsNoHostPath(t *testing.T) {
	n := testutil.Node(t)
	dir, config := hostFolder(t, false, "*")
	n.Configure(t, configured, config)
	put(t, dir+"/labels.txt", "labels")
	server := n.Web(t)
	pod := n.RunPod(t, node.PodSpec{Handler: configured, Annotations: asks(map[string]string{
		"both.url": server.File("/never", nil) + ";" + dir + "/labels.txt", "both.check-host-path": "true", "both.env": "BOTH",
		"none.url": server.File("/never", nil), "none.check-host-path": "true", "none.env": "NONE",
	})})
	container := pod.Start(t, node.ContainerSpec{})
	variable(t, container, "BOTH", "/hostpath"+dir+"/labels.txt")
	container.ExecFails(t, "env", "NONE")
	if asked := server.Requests("/never"); len(asked) > 0 {
		t.Errorf("a URL that the mount dropped was asked for: %v", asked)
	}
}
