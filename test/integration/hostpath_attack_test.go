// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/node"
)

// runFiles is where the shim mounts host paths on the node.
const runFiles = "/run/sedna/pods"

// nothingMounted fails when a pod that didn't start has a host path.
func nothingMounted(t *testing.T) {
	t.Helper()
	for _, name := range node.Entries(runFiles) {
		t.Errorf("%s/%s is there after a pod was refused", runFiles, name)
	}
}

// refusal is a pod that must not start for what it asks of the node's files.
type refusal struct {
	name      string
	namespace string // "default"
	asks      map[string]string
	says      []string
}

func (r refusal) run(t *testing.T, n testutil.TestNode) {
	pod := n.NewPod(t, node.PodSpec{Handler: configured, Namespace: r.namespace, Annotations: asks(r.asks)})
	message := pod.RunFails(t)
	t.Log(message)
	contains(t, message, r.says...)
	lacks(t, message, "\n")
	nothingMounted(t)
}

func TestFoldersOfTheNodeThatPodsMayNotMount(t *testing.T) {
	n := testutil.Node(t)
	open, config := hostFolder(t, true, "*")
	private, more := hostFolder(t, false, "vision")
	n.Configure(t, configured, config+more)
	outside := t.TempDir()
	put(t, outside+"/secret", canary)
	put(t, open+"/real/file", "x")
	put(t, private+"/set/file", "x")
	for link, to := range map[string]string{
		"absolute": outside, "relative": "../" + filepath.Base(outside), "proc": "/proc/1/root/etc",
		"kubelet": node.KubeletRoot + "/pods", "chain": "real/up", "real/up": "../..",
	} {
		if err := os.Symlink(to, filepath.Join(open, link)); err != nil {
			t.Fatal(err)
		}
	}
	victim := n.NewPod(t, node.PodSpec{Volumes: []node.Volume{{Name: "data", Files: map[string]string{"private": "x"}}}})
	dir := func(path string) map[string]string {
		return map[string]string{"model.url": path, "model.dir": "true", "model.mode": "writeonly"}
	}
	key := "storage.sedna.io/model.url"
	cases := []refusal{
		{name: "the root", asks: dir("/"), says: []string{key, "/"}},
		{name: "the kernel's files", asks: dir("/proc"), says: []string{key, "/proc", "host_path"}},
		{name: "the root by way of a process", asks: dir("/proc/1/root"), says: []string{key, "/proc/1/root", "host_path"}},
		{name: "a folder that no operator allows", asks: dir(outside), says: []string{key, outside, "host_path"}},
		{name: "a file that no operator allows", asks: map[string]string{"model.url": outside + "/secret"}, says: []string{key, outside, "host_path"}},
		{name: "a name that an allowed one begins", asks: dir(open + "-other"), says: []string{key, "host_path"}},
		{name: "the folder above an allowed one", asks: dir(filepath.Dir(open)), says: []string{key, "host_path"}},
		{name: "dots out of an allowed one", asks: dir(open + "/../" + filepath.Base(outside)), says: []string{key}},
		{name: "escaped dots", asks: dir(open + "/%2e%2e/" + filepath.Base(outside)), says: []string{"model"}},
		{name: "a relative path", asks: dir("real"), says: []string{key, "absolute"}},
		{name: "a relative path with dots", asks: dir("../../etc"), says: []string{key, "absolute"}},
		{name: "another namespace's folder", asks: dir(private + "/set"), says: []string{key, private, `"default"`, "host_path"}},
		{name: "another pod's volume", asks: dir(victim.VolumeDir("data")), says: []string{key, "host_path"}},
		{name: "the mounts of other pods", asks: dir(runFiles), says: []string{key, "host_path"}},
		{name: "a link that leads out", asks: dir(open + "/absolute"), says: []string{`"model"`, open + "/absolute", "symbolic link"}},
		{name: "a relative link that leads out", asks: dir(open + "/relative"), says: []string{`"model"`, "symbolic link"}},
		{name: "a file behind such a link", asks: map[string]string{"model.url": open + "/absolute/secret"}, says: []string{`"model"`, "symbolic link"}},
		{name: "a link through a process", asks: dir(open + "/proc"), says: []string{`"model"`, "symbolic link"}},
		{name: "a link into the kubelet's folder", asks: dir(open + "/kubelet"), says: []string{`"model"`, "symbolic link"}},
		{name: "links that lead out together", asks: dir(open + "/chain/" + filepath.Base(outside)), says: []string{`"model"`, "symbolic link"}},
		{name: "a folder that isn't there", asks: dir(open + "/absent"), says: []string{`"model"`, open + "/absent", "no folder"}},
		{name: "a file that isn't there", asks: map[string]string{"model.url": open + "/real/absent"}, says: []string{"NotFound", `"model"`, open + "/real", `"absent"`}},
		{name: "a file for a folder", asks: dir(open + "/real/file"), says: []string{`"model"`, "is no folder"}},
		{
			name: "a good one beside a bad one",
			asks: map[string]string{"a.url": open + "/real/", "b.url": open + "/absolute/"},
			says: []string{`"b"`, "symbolic link"},
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { c.run(t, n) })
	}
	if got, err := os.ReadFile(outside + "/secret"); err != nil || string(got) != canary {
		t.Errorf("the file outside holds %q: %v", got, err)
	}
}

func TestOwnNamespacesFolderStaysOutOfOtherNamespaces(t *testing.T) {
	n := testutil.Node(t)
	private, config := hostFolder(t, false, "vision")
	n.Configure(t, configured, config)
	put(t, private+"/set/file", "private")
	wish := asks(map[string]string{"model.url": private + "/set", "model.dir": "true"})
	own := n.RunPod(t, node.PodSpec{Handler: configured, Namespace: "vision", Annotations: wish})
	holds(t, own.Start(t, node.ContainerSpec{}), "/hostpath"+private+"/set/file", "private")

	other := n.NewPod(t, node.PodSpec{Handler: configured, Namespace: "vision-2", Annotations: wish})
	contains(t, other.RunFails(t), `"vision-2"`, private, "host_path")
	plain := n.RunPod(t, node.PodSpec{Handler: configured})
	container := plain.Start(t, node.ContainerSpec{})
	container.ExecFails(t, "stat", "/hostpath")
	// A running pod gets nothing by annotations that come later.
	late := plain.Start(t, node.ContainerSpec{Annotations: wish})
	late.ExecFails(t, "stat", "/hostpath")
}

func TestOperatorCantAllowFoldersThatHoldOtherPods(t *testing.T) {
	n := testutil.Node(t)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(node.KubeletRoot, link); err != nil {
		t.Fatal(err)
	}
	for name, folder := range map[string]string{
		"the root": "/", "the kubelet's folder": node.KubeletRoot, "pods": node.KubeletRoot + "/pods",
		"a folder above": filepath.Dir(node.KubeletRoot), "a link to it": link, "the kernel's files": "/proc",
	} {
		t.Run(name, func(t *testing.T) {
			n.Configure(t, configured, "\n[[host_path]]\npath = \""+folder+"\"\nnamespaces = [\"*\"]\n")
			refusal{
				asks: map[string]string{"model.url": folder + "/x/"},
				says: []string{node.Dir + "/handlers/" + configured + ".toml", "host_path", folder, "no pod may mount"},
			}.run(t, n)
		})
	}
}
