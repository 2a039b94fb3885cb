// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sedna-io/containerd-shim-sedna/internal/observe"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/isolate"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/node"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/web"
)

// roomFor skips where the machine can't spare so much memory.
func roomFor(t *testing.T, bytes int64) {
	t.Helper()
	var total, have int64
	for line := range strings.Lines(text(t, "/proc/meminfo")) {
		fields := strings.Fields(line)
		switch n, _ := strconv.ParseInt(fields[1], 10, 64); fields[0] {
		case "MemTotal:":
			total = n << 10
		case "MemAvailable:":
			have = n << 10
		}
	}
	if have < bytes+bytes/2 || have < total/8 {
		t.Skipf("the test takes %d bytes of memory, of which the machine has %d", bytes, have)
	}
}

// The default limit of a worker is 1 GiB, and the pages of a tmpfs are charged
// to who writes them.
func TestAModelLargerThanTheWorkersMemoryFitsIntoAMemoryVolume(t *testing.T) {
	const size = 1536 << 20
	roomFor(t, 2*size)
	n := testutil.Node(t)
	server := n.Web(t)
	content := web.Bytes(size)
	url := server.File("/model.bin", content)
	since := n.LogSize()
	pod := n.RunPod(t, node.PodSpec{
		Volumes:     []node.Volume{{Name: volume, Memory: true, SizeLimit: "2g"}},
		Annotations: asks(map[string]string{"model.url": url}),
	})
	lacks(t, n.Log(since, 1000), "no limits of its own")
	container := pod.Start(t, node.ContainerSpec{})
	sameFiles(t, container.Tree(t, downloads+"/"+server.Host()), map[string][]byte{"model.bin": content})
	if last := lastResult(t, pod); last.Memory < size {
		t.Errorf("%d bytes were charged to the worker, less than it has written", last.Memory)
	}
}

func TestAModelLargerThanAMemoryVolumeFailsBeforeItsFirstByte(t *testing.T) {
	n := testutil.Node(t)
	server := n.Web(t)
	url, pace := server.Paced("/model.bin", web.Bytes(160<<20), 0)
	pod := n.NewPod(t, node.PodSpec{
		Volumes:     []node.Volume{{Name: volume, Memory: true, SizeLimit: "128m"}},
		Annotations: asks(map[string]string{"model.url": url}),
	})
	contains(t, pod.RunFails(t), "ResourceExhausted", "model", url, "160", "128")
	noFinalFiles(t, pod)
	// The size is in the head of the reply that would bring the first part.
	if sent := pace.Served(); sent > 8<<20 {
		t.Errorf("%d bytes were sent", sent)
	}
	var fsys unix.Statfs_t
	if err := unix.Statfs(pod.VolumeDir(volume), &fsys); err != nil {
		t.Fatal(err)
	}
	if used := (fsys.Blocks - fsys.Bfree) * uint64(fsys.Bsize); used > 1<<20 {
		t.Errorf("%d bytes of the volume are used", used)
	}
}

// limitPod gives the pod's control group so much memory, as its containers'
// limits would.
func limitPod(t *testing.T, pod testutil.TestPod, bytes int64) {
	t.Helper()
	limited := false
	for _, dir := range isolate.Cgroups(isolate.Cgroup()) {
		if filepath.Base(dir) != "pod"+pod.UID {
			continue
		}
		for _, file := range []string{"memory.limit_in_bytes", "memory.max"} {
			if f, err := os.OpenFile(filepath.Join(dir, file), os.O_WRONLY, 0); err == nil {
				_, err = f.WriteString(strconv.FormatInt(bytes, 10))
				_ = f.Close()
				limited = limited || err == nil
			}
		}
	}
	if !limited {
		t.Skip("the pod's memory can't be limited here")
	}
}

// A transfer of many times the pod's memory to a disk: pages that wait for the
// disk count, but give way. What the pod's own sandbox needs comes after it.
func TestADownloadOfManyTimesThePodsMemoryIsNotKilled(t *testing.T) {
	size := 512 << 20
	if os.Getenv("SEDNA_FULL_TIME") != "" {
		size = 2 << 30
	}
	n := testutil.Node(t)
	server := n.Web(t)
	url := server.File("/model.bin", web.Bytes(size))
	pod := n.NewPod(t, node.PodSpec{
		Volumes: []node.Volume{downloadVolume()}, Annotations: asks(map[string]string{"model.url": url}),
	})
	// The node's own folders are all in memory.
	if err := unix.Mount(t.TempDir(), pod.VolumeDir(volume), "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	limitPod(t, pod, 32<<20)
	_ = pod.Pod.Run(testutil.Context(t)) // 32 MiB are less than a sandbox takes
	last := lastResult(t, pod)
	if last.Result != observe.Success || last.Fetched < int64(size) {
		t.Errorf("the download ended with %d bytes: %+v", last.Fetched, last.Failure)
	}
	if last.Memory > 33<<20 {
		t.Errorf("the worker took %d bytes of the pod's 32 MiB", last.Memory)
	}
}
