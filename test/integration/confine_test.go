// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/binaries"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/isolate"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/node"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/web"
)

// workerGroups lists the control groups of workers below those of the run's pods.
func workerGroups() []string {
	var groups []string
	for _, dir := range isolate.Cgroups(isolate.Cgroup()) {
		if strings.HasPrefix(filepath.Base(dir), "sedna-storage-") {
			groups = append(groups, dir)
		}
	}
	return groups
}

func noWorkerGroups(t *testing.T) {
	t.Helper()
	if left := workerGroups(); len(left) > 0 {
		t.Errorf("control groups of a worker that has ended: %s", left)
	}
}

// onlyWorker is the process that downloads.
func onlyWorker(t *testing.T) node.Process {
	t.Helper()
	found, err := node.Find(binaries.Worker)
	if err != nil || len(found) != 1 {
		t.Fatalf("workers: %v, %v", found, err)
	}
	return found[0]
}

// proc reads one file of a process.
func proc(t *testing.T, p node.Process, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.PID), name))
	if err != nil {
		t.Error(err)
	}
	return string(data)
}

func TestRunningWorkerIsBehindBars(t *testing.T) {
	h := newHalfway(t, node.Sedna)
	h.interrupt(t, testutil.Context(t), func() {
		p := onlyWorker(t)
		contains(t, proc(t, p, "status"), "NoNewPrivs:\t1\n", "Seccomp:\t2\n",
			"CapEff:\t0000000000000002\n", "CapPrm:\t0000000000000002\n", "CapBnd:\t0000000000000002\n", "CapInh:\t0000000000000000\n")
		if adj := strings.TrimSpace(proc(t, p, "oom_score_adj")); adj != "1000" {
			t.Errorf("oom_score_adj is %s", adj)
		}
		if environ := proc(t, p, "environ"); environ != "" {
			t.Errorf("the environment is %q", environ)
		}
		if cmdline := strings.Join(p.Args, " "); cmdline != binaries.Worker+" worker" && !strings.HasSuffix(cmdline, "/"+binaries.Worker+" worker") {
			t.Errorf("the command line is %q", cmdline)
		}
		groups := workerGroups()
		if len(groups) == 0 {
			t.Fatal("the worker has no control group")
		}
		in := proc(t, p, "cgroup")
		for _, dir := range groups {
			if !strings.Contains(dir, "/pod"+h.UID+"/") {
				t.Errorf("%s isn't below the pod's", dir)
			}
			_, below, _ := strings.Cut(dir, isolate.Cgroup())
			contains(t, in, isolate.Cgroup()+below)
		}
		// The volume may lie in memory here: then its size comes on top.
		limits := limitsOf(groups)
		if memory := limits["memory"]; memory < 1<<30 || memory > 1<<50 {
			t.Errorf("the limit of memory is %d", memory)
		}
		if limits["cpu"] != 100_000 {
			t.Errorf("the limit of CPU is %d of 100000", limits["cpu"])
		}
		kill(t, binaries.Worker)
	})
	noWorkerGroups(t)
	h.succeeds(t)
	noWorkerGroups(t)
}

// limitsOf are the limits in force, by controller, in either version's files.
func limitsOf(groups []string) map[string]int64 {
	limits := map[string]int64{}
	for _, dir := range groups {
		for _, file := range []string{"memory.limit_in_bytes", "cpu.cfs_quota_us", "memory.max", "cpu.max"} {
			data, err := os.ReadFile(filepath.Join(dir, file))
			if err != nil {
				continue
			}
			controller, _, _ := strings.Cut(file, ".")
			value, _, _ := strings.Cut(strings.TrimSpace(string(data)), " ")
			limits[controller], _ = strconv.ParseInt(value, 10, 64)
		}
	}
	return limits
}

// It also runs on control groups of version 2, in the machine of test/cgroup2.
func TestAPodDownloadsWithinItsOwnControlGroup(t *testing.T) {
	h := newHalfway(t, node.Sedna)
	result := make(chan error, 1)
	go func() { result <- h.Pod.Run(testutil.Context(t)) }()
	<-h.gate.Reached
	groups := workerGroups()
	for _, dir := range groups {
		if !strings.Contains(dir, "/pod"+h.UID+"/") {
			t.Errorf("%s isn't below the pod's", dir)
		}
	}
	if limits := limitsOf(groups); limits["memory"] < 1<<30 || limits["cpu"] != 100_000 {
		t.Errorf("the limits of %s are %v", groups, limits)
	}
	h.gate.Open()
	if err := <-result; err != nil {
		t.Fatal(err)
	}
	noWorkerGroups(t)
	container := h.Start(t, node.ContainerSpec{})
	sameFiles(t, container.Tree(t, h.dir), map[string][]byte{"model.bin": h.content})
	if last := lastResult(t, h.TestPod); last.Memory == 0 {
		t.Errorf("its memory wasn't counted: %+v", last)
	}
}

func TestGroupOfTheWorkerGoesWithAKilledShim(t *testing.T) {
	h := newHalfway(t, node.Sedna)
	h.interrupt(t, testutil.Context(t), func() {
		if len(workerGroups()) == 0 {
			t.Error("the worker has no control group")
		}
		kill(t, binaries.Shim)
	})
	h.succeeds(t)
	noWorkerGroups(t)
}

func TestPodWithLessMemoryThanItsDownloadNeedsIsTold(t *testing.T) {
	n := testutil.Node(t)
	server := n.Web(t)
	pod := n.NewPod(t, node.PodSpec{
		Volumes:     []node.Volume{downloadVolume()},
		Annotations: asks(map[string]string{"model.url": server.File("/model.bin", web.Bytes(64<<20))}),
	})
	limitPod(t, pod, 1<<20)
	contains(t, pod.RunFails(t), "for want of memory", "the pod's own limit of 1.0 MiB")
	noWorkerGroups(t)
}

func TestFileOfManyTimesTheWorkersMemoryFitsIntoAMemoryVolume(t *testing.T) {
	n := testutil.Node(t)
	server := n.Web(t)
	content := web.Bytes(300 << 20)
	url := server.File("/model.bin", content)
	pod := n.RunPod(t, node.PodSpec{
		Handler:     tight,
		Volumes:     []node.Volume{{Name: volume, Memory: true, SizeLimit: "400m"}},
		Annotations: asks(map[string]string{"model.url": url}),
	})
	container := pod.Start(t, node.ContainerSpec{})
	sameFiles(t, container.Tree(t, downloads+"/"+server.Host()), map[string][]byte{"model.bin": content})
}
