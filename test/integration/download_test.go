// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/node"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/web"
)

// below puts a prefix in front of every key.
func below(prefix string, files map[string][]byte) map[string][]byte {
	objects := map[string][]byte{}
	for name, content := range files {
		objects[prefix+name] = content
	}
	return objects
}

func TestPodStartsWithTheFilesOfAnS3Prefix(t *testing.T) {
	n := testutil.Node(t)
	files := map[string][]byte{
		"config.json":                 []byte(`{"layers": 2}`),
		"empty":                       {},
		"weights/part-0.bin":          web.Bytes(3 << 20),
		"weights/deep/er/part-1.bin":  web.Bytes(1<<20 + 1),
		"name with spaces.txt":        []byte("spaces"),
		"ünïcödé/模型.bin":              []byte("unicode"),
		"percent%20and+plus&more.txt": []byte("literal"),
	}
	objects := below("models/mine/", files)
	objects["models/mine-logs/not-ours"] = []byte("a neighbour with the same string prefix")
	bucket := n.Bucket(t, objects)
	pod := n.RunPod(t, node.PodSpec{
		Volumes: []node.Volume{downloadVolume()},
		Annotations: asksS3(bucket, map[string]string{
			"model.url": "s3://" + bucket.Name + "/models/mine/",
			"model.env": "MODEL_URL",
		}),
	})

	where := downloads + "/" + bucket.Name + "/models/mine"
	mounter := pod.Start(t, node.ContainerSpec{Mounts: []node.Mount{{Volume: volume, Path: downloads}}})
	stranger := pod.Start(t, node.ContainerSpec{})
	for who, container := range map[string]testutil.TestContainer{"mounts it": mounter, "doesn't mount it": stranger} {
		if got := strings.TrimSpace(container.Exec(t, "env", "MODEL_URL")); got != where {
			t.Errorf("in the container that %s MODEL_URL is %q, not %q", who, got, where)
		}
		sameFiles(t, container.Tree(t, where), files)
	}
}

func TestPodSees2500SmallObjects(t *testing.T) {
	n := testutil.Node(t)
	files := map[string][]byte{}
	for i := range 2500 {
		files[fmt.Sprintf("shard-%02d/sample-%04d.txt", i%17, i)] = fmt.Appendf(nil, "sample %d", i)
	}
	bucket := n.Bucket(t, below("set/", files))
	pod := n.RunPod(t, node.PodSpec{
		Volumes:     []node.Volume{downloadVolume()},
		Annotations: asksS3(bucket, map[string]string{"data.url": "s3://" + bucket.Name + "/set/"}),
	})
	container := pod.Start(t, node.ContainerSpec{})
	sameFiles(t, container.Tree(t, downloads+"/"+bucket.Name+"/set"), files)
}

func TestPodStartsWithALargeFileFromTheWeb(t *testing.T) {
	n := testutil.Node(t)
	server := n.Web(t)
	content := web.Bytes(256 << 20)
	url := server.File("/models/large.bin", content)
	pod := n.RunPod(t, node.PodSpec{
		Volumes:     []node.Volume{downloadVolume()},
		Annotations: asks(map[string]string{"model.url": url, "model.env": "MODEL"}),
	})
	container := pod.Start(t, node.ContainerSpec{})
	dir := downloads + "/" + server.Host() + "/models"
	if got := strings.TrimSpace(container.Exec(t, "env", "MODEL")); got != dir+"/large.bin" {
		t.Errorf("MODEL is %q", got)
	}
	sameFiles(t, container.Tree(t, dir), map[string][]byte{"large.bin": content})
	for _, request := range server.Requests("/models/large.bin") {
		if !strings.HasPrefix(request.From, "10.89.") || request.From == node.Address {
			t.Errorf("the download came from %s, not from the pod's network", request.From)
		}
	}
}

func TestDownloadsAreReadOnlyInEveryContainer(t *testing.T) {
	n := testutil.Node(t)
	server := n.Web(t)
	pod := n.RunPod(t, node.PodSpec{
		Volumes:     []node.Volume{downloadVolume()},
		Annotations: asks(map[string]string{"model.url": server.File("/model", []byte("bytes"))}),
	})
	file := "/" + server.Host() + "/model"
	// The first mounts the volume read-write, at a place of its own.
	own := pod.Start(t, node.ContainerSpec{Mounts: []node.Mount{{Volume: volume, Path: "/mine"}}})
	injected := pod.Start(t, node.ContainerSpec{})
	for root, container := range map[string]testutil.TestContainer{"/mine": own, downloads: injected} {
		for _, attempt := range [][]string{
			{"write", root + file, "evil"},
			{"write", root + "/new", "evil"},
			{"mkdir", root + "/dir"},
			{"remove", root + file},
			{"chmod", root + file},
		} {
			if said := container.ExecFails(t, attempt...); !strings.Contains(said, "read-only file system") {
				t.Errorf("%v: %s", attempt, said)
			}
		}
		if got := container.Exec(t, "cat", root+file); got != "bytes" {
			t.Errorf("%s%s now holds %q", root, file, got)
		}
	}
}

func TestVariableFollowsTheContainersOwnMount(t *testing.T) {
	n := testutil.Node(t)
	server := n.Web(t)
	one, two := server.File("/a", []byte("a")), server.File("/b", []byte("b"))
	pod := n.RunPod(t, node.PodSpec{
		Volumes:     []node.Volume{downloadVolume()},
		Annotations: asks(map[string]string{"model.url": one + ";" + two, "model.env": "MODELS"}),
	})
	for root, spec := range map[string]node.ContainerSpec{
		"/opt/models": {Mounts: []node.Mount{{Volume: volume, Path: "/opt/models"}}},
		downloads:     {},
	} {
		container := pod.Start(t, spec)
		want := root + "/" + server.Host() + "/a;" + root + "/" + server.Host() + "/b"
		if got := strings.TrimSpace(container.Exec(t, "env", "MODELS")); got != want {
			t.Errorf("MODELS is %q, not %q", got, want)
		}
		if got := container.Exec(t, "cat", root+"/"+server.Host()+"/b"); got != "b" {
			t.Errorf("the second file holds %q", got)
		}
	}
}

func TestVariableThatTheContainerSetsItselfStays(t *testing.T) {
	n := testutil.Node(t)
	pod := n.RunPod(t, node.PodSpec{
		Volumes:     []node.Volume{downloadVolume()},
		Annotations: asks(map[string]string{"model.url": n.Web(t).File("/model", []byte("x")), "model.env": "MODEL"}),
	})
	container := pod.Start(t, node.ContainerSpec{Env: map[string]string{"MODEL": "my own"}})
	if got := strings.TrimSpace(container.Exec(t, "env", "MODEL")); got != "my own" {
		t.Errorf("MODEL is %q", got)
	}
}

func TestSecretVolumeOpensAPrivateBucket(t *testing.T) {
	n := testutil.Node(t)
	if err := n.S3(t).AddUser(testutil.Context(t), "reader", "reader-secret"); err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{"model.bin": []byte("private")}
	bucket := n.Bucket(t, below("m/", files), "reader")
	pod := n.RunPod(t, node.PodSpec{
		Volumes: []node.Volume{downloadVolume(), {Name: "keys", Kind: node.Secret, Files: map[string]string{
			"AWS_ACCESS_KEY_ID": "reader", "AWS_SECRET_ACCESS_KEY": "reader-secret",
		}}},
		Annotations: asksS3(bucket, map[string]string{"model.url": "s3://" + bucket.Name + "/m/", "secret": "keys"}),
	})
	container := pod.Start(t, node.ContainerSpec{})
	sameFiles(t, container.Tree(t, downloads+"/"+bucket.Name+"/m"), files)
}

func TestNonRootContainerWithFSGroupReadsTheDownload(t *testing.T) {
	n := testutil.Node(t)
	server := n.Web(t)
	pod := n.RunPod(t, node.PodSpec{
		Volumes:     []node.Volume{{Name: volume, FSGroup: 2000}},
		Annotations: asks(map[string]string{"model.url": server.File("/dir/model", []byte("x"))}),
	})
	container := pod.Start(t, node.ContainerSpec{User: 1000})
	dir := downloads + "/" + server.Host() + "/dir"
	if got := container.Exec(t, "cat", dir+"/model"); got != "x" {
		t.Errorf("uid 1000 reads %q", got)
	}
	if stat := container.Stat(t, dir+"/model"); stat.GID != 2000 {
		t.Errorf("the file's group is %d, not the volume's", stat.GID)
	}
	if stat := container.Stat(t, dir); stat.GID != 2000 || !strings.HasPrefix(stat.Mode, "2") {
		t.Errorf("the folder has group %d and mode %s", stat.GID, stat.Mode)
	}
}

func TestNamesResolveAsInThePod(t *testing.T) {
	n := testutil.Node(t)
	server := n.Web(t)
	_, port, err := net.SplitHostPort(server.Host())
	if err != nil {
		t.Fatal(err)
	}
	n.DNS.Set("models.shop.svc.cluster.local", netip.MustParseAddr(node.Address))
	server.File("/model", []byte("x"))
	// The short name needs the pod's own search list.
	for _, host := range []string{"models", "models.shop.svc.cluster.local"} {
		pod := n.RunPod(t, node.PodSpec{
			Namespace:   "shop",
			Volumes:     []node.Volume{downloadVolume()},
			Annotations: asks(map[string]string{"model.url": "http://" + host + ":" + port + "/model"}),
		})
		container := pod.Start(t, node.ContainerSpec{})
		if got := container.Exec(t, "cat", downloads+"/"+host+":"+port+"/model"); got != "x" {
			t.Errorf("from %s the pod reads %q", host, got)
		}
	}
}
