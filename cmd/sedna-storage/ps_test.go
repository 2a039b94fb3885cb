// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sedna-io/containerd-shim-sedna/internal/observe"
	"github.com/sedna-io/containerd-shim-sedna/storage/worker"
)

// ps runs the command on a node of the test's own.
func ps(node observe.Node, change func(*psOptions)) (string, error) {
	var out bytes.Buffer
	o := psOptions{node: node, now: psNow, output: "table", last: 20}
	if change != nil {
		change(&o)
	}
	err := o.run(&out)
	return out.String(), err
}

var psNow = time.Date(2026, 11, 30, 12, 1, 3, 0, time.UTC)

func asJSON(o *psOptions)    { o.output = "json" }
func ofResults(o *psOptions) { o.results = true }

func psNode(t *testing.T) observe.Node {
	return observe.Node{Run: filepath.Join(t.TempDir(), "run"), State: filepath.Join(t.TempDir(), "state")}
}

func put(t *testing.T, node observe.Node, id string, p worker.Progress) observe.Running {
	t.Helper()
	self, err := observe.Self()
	if err != nil {
		t.Fatal(err)
	}
	r := observe.Running{
		Pod: worker.Pod{Namespace: "vision", Name: id, UID: "uid"}, Sandbox: id, Mounts: []string{"model", "data"},
		Process: self, Since: psNow.Add(-63 * time.Second), Updated: psNow, Progress: p,
	}
	if err := node.Write(r); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestPsShowsWhatRuns(t *testing.T) {
	node := psNode(t)
	put(t, node, "a-known", worker.Progress{Bytes: 512 << 20, Total: 1 << 30, Rate: 64 << 20, Item: "https://h/m\x1b[2J"})
	put(t, node, "b-unknown", worker.Progress{Bytes: 3 << 20, Item: "s3://b/k", Waiting: "another pod", Trouble: "host reset the connection"})
	slow := put(t, node, "c-slow", worker.Progress{Bytes: 1, Total: 1 << 60, Rate: 2})
	slow.Limit = &observe.Limit{Bandwidth: 20 << 20, Downloads: 2}
	if err := node.Write(slow); err != nil {
		t.Fatal(err)
	}
	out, err := ps(node, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := `POD               MOUNTS      PROGRESS                                           RATE      LEFT        SINCE  ITEM
vision/a-known    model,data  [##########----------]  50 %  512 MiB of 1.0 GiB   64 MiB/s  8s          1m3s   https://h/m?[2J
vision/b-unknown  model,data  [????????????????????]   ? %  3.0 MiB              0 B/s     -           1m3s   s3://b/k (waiting for another pod) (host reset the connection)
vision/c-slow     model,data  [--------------------]   0 %  1 B of 1.0 EiB       2 B/s     >99h0m0s    1m3s   (limited to 10 MiB/s of the node's 20 MiB/s, shared by 2 downloads)
`
	if diff := cmp.Diff(strings.Join(strings.Fields(want), " "), strings.Join(strings.Fields(out), " ")); diff != "" {
		t.Errorf("(-want +got):\n%s\n%s", diff, out)
	}
}

func TestPsInJSONIsAList(t *testing.T) {
	node := psNode(t)
	if out, err := ps(node, asJSON); err != nil || strings.TrimSpace(out) != "[]" {
		t.Errorf("nothing is written as %q, %v", out, err)
	}
	want := []observe.Running{put(t, node, "a", worker.Progress{Bytes: 1, Item: "https://h/a&b"})}
	out, err := ps(node, asJSON)
	if err != nil || !strings.Contains(out, "a&b") {
		t.Fatalf("%s, %v", out, err)
	}
	var got []observe.Running
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPsWithNothingToShowSaysSo(t *testing.T) {
	node := psNode(t)
	if out, err := ps(node, nil); err != nil || !strings.Contains(out, "no downloads are running") {
		t.Errorf("%q, %v", out, err)
	}
	if out, err := ps(node, ofResults); err != nil || !strings.Contains(out, "no download has ended") {
		t.Errorf("%q, %v", out, err)
	}
}

func TestPsShowsResultsAndTheirCauses(t *testing.T) {
	node := psNode(t)
	for _, r := range []observe.Result{
		{Result: observe.Success, Bytes: 5 << 20, Items: []observe.Item{{URL: "https://h/old"}}},
		{Result: observe.Success, Bytes: 4 << 20, Fetched: 1 << 20, Files: 3, Seconds: 1.234, Items: []observe.Item{{URL: "https://h/m", Cache: "hit"}, {URL: "s3://b/k"}}},
		{Result: observe.Failed, Failure: &worker.Failure{Kind: "not_found", Message: "fetch https://h/gone for mount model: 404\nx"}},
	} {
		r.Pod = worker.Pod{Namespace: "vision", Name: "pod"}
		if err := node.AddResult(r); err != nil {
			t.Fatal(err)
		}
	}
	out, err := ps(node, func(o *psOptions) { o.results, o.last = true, 2 })
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 3 {
		t.Fatalf("there are %d lines:\n%s", len(lines), out)
	}
	for i, parts := range [][]string{
		{"ENDED", "POD", "RESULT", "WHAT"},
		{"vision/pod", "success", "1.23s", "4.0 MiB", "1.0 MiB", "3", "https://h/m (from the cache), s3://b/k"},
		{"vision/pod", "failure", "not_found: fetch https://h/gone for mount model: 404?x"},
	} {
		for _, part := range parts {
			if !strings.Contains(lines[i], part) {
				t.Errorf("%q is not in %s", part, lines[i])
			}
		}
	}
}

func TestPsShowsWhatItCanRead(t *testing.T) {
	node := psNode(t)
	put(t, node, "a", worker.Progress{})
	if err := os.WriteFile(filepath.Join(node.Run, "b.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := ps(node, nil)
	if err == nil || !strings.Contains(err.Error(), "b.json") || !strings.Contains(out, "vision/a") {
		t.Errorf("%q, %v", out, err)
	}
}

func TestPsCalledWrongly(t *testing.T) {
	for _, args := range [][]string{{"x"}, {"-o", "yaml"}, {"--last", "0"}, {"--none"}} {
		_, _, err := sedna(t.Context(), append([]string{"ps"}, args...)...)
		var usage usageError
		if !errors.As(err, &usage) {
			t.Errorf("%q: error is %v", args, err)
		}
	}
}
