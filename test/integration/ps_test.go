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

	"github.com/sedna-io/containerd-shim-sedna/storage/worker"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/binaries"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/node"
)

// ps is what `sedna-storage ps` prints on the node.
func ps(t *testing.T, args ...string) string {
	t.Helper()
	ours, _, err := binaries.Dirs()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(filepath.Join(ours, binaries.Worker), append([]string{"ps"}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("ps: %v: %s", err, out)
	}
	return string(out)
}

func TestRunningDownloadIsShownUntilItEnds(t *testing.T) {
	h := newHalfway(t, node.Sedna)
	h.interrupt(t, testutil.Context(t), func() {
		err := node.Poll(testutil.Context(t), 10*time.Second, func(ctx context.Context) error {
			if !strings.Contains(ps(t), " MiB of 8.0 MiB") {
				return errors.New(ps(t))
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		contains(t, ps(t), h.Spec.Namespace+"/"+h.Spec.Name, "model", "%")
		kill(t, binaries.Worker)
	})
	if got := ps(t, "-o", "json"); got != "[]\n" {
		t.Errorf("after a failure ps shows %s", got)
	}
	h.succeeds(t)
	if got := ps(t, "-o", "json"); got != "[]\n" {
		t.Errorf("after the end ps shows %s", got)
	}
}

func TestResultOfADownloadIsInThePodsLogFolder(t *testing.T) {
	n := testutil.Node(t)
	server := n.Web(t)
	url := server.File("/model", []byte("seven b"))
	pod := n.RunPod(t, node.PodSpec{
		Volumes:     []node.Volume{downloadVolume()},
		Annotations: asks(map[string]string{"model.url": url + "?X-Amz-Signature=c4n4ry"}),
	})
	data, err := os.ReadFile(filepath.Join(pod.LogDir(), "sedna-storage", "0.log"))
	if err != nil {
		t.Fatal(err)
	}
	lacks(t, string(data), "c4n4ry")
	fields := strings.SplitN(string(data), " ", 4)
	if len(fields) != 4 {
		t.Fatalf("no line of a CRI log: %s", data)
	}
	var got struct {
		Pod    worker.Pod
		Report worker.Report
	}
	if err := json.Unmarshal([]byte(fields[3]), &got); err != nil {
		t.Fatal(err)
	}
	if got.Pod.UID != pod.UID || got.Report.Bytes != 7 || len(got.Report.Items) != 1 {
		t.Errorf("got %+v", got)
	}
}
