// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sedna-io/containerd-shim-sedna/internal/observe"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/binaries"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/node"
)

// metricsFile is where the handler `configured` counts in these tests.
const metricsFile = "/var/lib/metrics/sedna.prom"

// ps is what `sedna-storage ps` prints on the node.
func ps(t *testing.T, args ...string) string {
	t.Helper()
	ours, _, err := binaries.Dirs()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(filepath.Join(ours, binaries.Worker), append([]string{"ps"}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("sedna-storage ps %v: %v\n%s", args, err, out)
	}
	return string(out)
}

func running(t *testing.T) (all []observe.Running) {
	t.Helper()
	if err := json.Unmarshal([]byte(ps(t, "-o", "json")), &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// lastResult is the newest of the node's results, which must be a pod's.
func lastResult(t *testing.T, pod testutil.TestPod) observe.Result {
	t.Helper()
	var all []observe.Result
	if err := json.Unmarshal([]byte(ps(t, "--results", "--last", "1", "-o", "json")), &all); err != nil {
		t.Fatal(err)
	}
	if len(all) != 1 || all[0].Pod.UID != pod.UID || all[0].Pod.Name != pod.Spec.Name {
		t.Fatalf("the last results of the node are %+v", all)
	}
	return all[0]
}

func text(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestADownloadIsSeenOnTheNodeWhileItRunsAndAfter(t *testing.T) {
	n := testutil.Node(t)
	n.Configure(t, configured, "[storage]\nmetrics_file = \""+metricsFile+"\"\n")
	if err := os.MkdirAll(filepath.Dir(metricsFile), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(filepath.Dir(metricsFile)) })
	h := newHalfway(t, configured)
	h.Spec.Annotations["storage.sedna.io/model.url"] += "?signature=" + canary
	since := n.LogSize()
	result := make(chan error, 1)
	go func() { result <- h.Pod.Run(testutil.Context(t)) }()
	<-h.gate.Reached

	var seen observe.Running
	err := node.Poll(testutil.Context(t), 10*time.Second, func(context.Context) error {
		all := running(t)
		if len(all) != 1 || all[0].Progress.Bytes == 0 {
			return errors.New("no progress is seen: " + ps(t))
		}
		seen = all[0]
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if p := seen.Progress; seen.Pod.Name != h.Spec.Name || strings.Join(seen.Mounts, " ") != "model" || p.Total != int64(len(h.content)) || p.Bytes >= p.Total {
		t.Errorf("seen is %+v", seen)
	}
	table := ps(t)
	contains(t, table, "default/"+h.Spec.Name, "model.bin", "#", "MiB")
	lacks(t, table, canary)
	lookInFiles(t, "/run/sedna")

	h.gate.Open()
	if err := <-result; err != nil {
		t.Fatal(err)
	}
	if all := running(t); len(all) > 0 {
		t.Errorf("seen after the end: %+v", all)
	}
	last := lastResult(t, h.TestPod)
	size := int64(len(h.content))
	if last.Result != observe.Success || last.Bytes != size || last.Fetched < size || last.Files != 1 || last.Seconds <= 0 {
		t.Errorf("the result is %+v", last)
	}
	if item := last.Items[0]; item.Mounts[0] != "model" || item.Bytes != size || item.Attempts < 1 || !strings.Contains(item.URL, item.Host) {
		t.Errorf("the item's result is %+v", item)
	}
	contains(t, text(t, h.LogDir()+"/sedna-storage/0.log"), " stdout F {", `"result":"success"`, "model.bin")
	contains(t, text(t, metricsFile), `sedna_downloads_total{result="success"} 1`, "sedna_download_seconds_count 1")
	log := n.Log(since, 1000)
	for _, part := range []string{"begins", "download result"} {
		if len(lines(log, part, "level=info", "default/"+h.Spec.Name)) != 1 {
			t.Errorf("the shim's log hasn't one line with %q", part)
		}
	}
	lookInFiles(t, "/run/sedna", "/var/lib/sedna", h.LogDir(), filepath.Dir(metricsFile))
	lacks(t, log, canary)
}

func TestAFailedDownloadLeavesItsCauseOnTheNode(t *testing.T) {
	n := testutil.Node(t)
	server := n.Web(t)
	pod := n.NewPod(t, node.PodSpec{
		Volumes:     []node.Volume{downloadVolume()},
		Annotations: asks(map[string]string{"model.url": server.Status("/gone", 404) + "?signature=" + canary}),
	})
	message := pod.RunFails(t)
	last := lastResult(t, pod)
	if last.Result != observe.Failed || last.Failure.Kind != "not_found" || !strings.Contains(message, last.Failure.Message) {
		t.Errorf("the pod fails with %s\nthe result is %+v", message, last.Failure)
	}
	contains(t, ps(t, "--results"), "failure", "not_found", "/gone", pod.Spec.Name)
	contains(t, text(t, pod.LogDir()+"/sedna-storage/0.log"), `"kind":"not_found"`)
	lookInFiles(t, "/var/lib/sedna", pod.LogDir())
}

func TestAKilledShimsDownloadLeavesAResultAndNoRecord(t *testing.T) {
	h := newHalfway(t, node.Sedna)
	h.interrupt(t, testutil.Context(t), func() { kill(t, binaries.Shim) })
	if all := running(t); len(all) > 0 {
		t.Errorf("still seen: %+v", all)
	}
	err := node.Poll(testutil.Context(t), 10*time.Second, func(context.Context) error {
		if out := ps(t, "--results", "--last", "1"); !strings.Contains(out, h.Spec.Name) {
			return errors.New("no result is seen: " + out)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if last := lastResult(t, h.TestPod); last.Result != observe.Failed || !strings.Contains(last.Failure.Message, "killed") {
		t.Errorf("the result is %+v", last)
	}
	contains(t, text(t, h.LogDir()+"/sedna-storage/0.log"), "next attempt")
	if left := node.Entries("/run/sedna/downloads"); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

func TestAPodStartsOnANodeWhoseRunIsFull(t *testing.T) {
	n := testutil.Node(t)
	if err := os.MkdirAll("/run/sedna", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", "/run/sedna", "tmpfs", 0, "nr_inodes=1"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount("/run/sedna", 0); err != nil {
			t.Error(err)
		}
	})
	server := n.Web(t)
	since := n.LogSize()
	pod := n.RunPod(t, node.PodSpec{
		Volumes:     []node.Volume{downloadVolume()},
		Annotations: asks(map[string]string{"model.url": server.File("/model", []byte("x"))}),
	})
	container := pod.Start(t, node.ContainerSpec{})
	if got := container.Exec(t, "cat", downloads+"/"+server.Host()+"/model"); got != "x" {
		t.Errorf("the pod reads %q", got)
	}
	if told := lines(n.Log(since, 1000), "won't show this download"); len(told) != 1 {
		t.Errorf("the log tells it %d times: %q", len(told), told)
	}
	if last := lastResult(t, pod); last.Result != observe.Success {
		t.Errorf("the result is %+v", last)
	}
}
