// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/sedna-io/containerd-shim-sedna/storage/worker"
)

func exampleResult(i int) Result {
	return Result{
		Time: time.Date(2026, 11, 30, 12, 0, 0, i, time.UTC), Pod: worker.Pod{Namespace: "ns", Name: "pod", UID: "uid"},
		Sandbox: fmt.Sprint(i), Result: Failed, Bytes: 3, Fetched: 2, Files: 1, Seconds: 1.5,
		Items:   []Item{{Mounts: []string{"model"}, URL: "https://h/m", Host: "h", Attempts: 2, Cache: "miss"}},
		Failure: &worker.Failure{Kind: "not_found", Message: "fetch https://h/m for mount model: 404"},
	}
}

func add(t *testing.T, n Node, results ...Result) {
	t.Helper()
	for _, r := range results {
		if err := n.AddResult(r); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTheLastResultsAreKept(t *testing.T) {
	n := testNode(t)
	if all, err := n.Results(5); err != nil || all != nil {
		t.Errorf("before the first: %v, %v", all, err)
	}
	add(t, n, exampleResult(1), exampleResult(2), exampleResult(3))
	all, err := n.Results(2)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Result{exampleResult(2), exampleResult(3)}, all); diff != "" {
		t.Errorf("others are listed (-want +got):\n%s", diff)
	}
}

func TestResultsTakeLittleRoomAndTheLastAreThere(t *testing.T) {
	n := testNode(t)
	big := exampleResult(0)
	big.Failure.Message = strings.Repeat("x", maxLog/8)
	for i := range 30 {
		big.Sandbox = fmt.Sprint(i)
		add(t, n, big)
	}
	var size int64
	entries, err := os.ReadDir(n.State)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		size += info.Size()
	}
	if len(entries) != 2 || size > 2*maxLog {
		t.Errorf("%d files of %d bytes", len(entries), size)
	}
	all, err := n.Results(8)
	if err != nil || len(all) != 8 || all[7].Sandbox != "29" || all[0].Sandbox != "22" {
		t.Errorf("%d results are there, %v", len(all), err)
	}
}

func TestShimsThatEndAtOnceLoseNoResult(t *testing.T) {
	n := testNode(t)
	metrics := filepath.Join(t.TempDir(), "x.prom")
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			if err := n.AddResult(exampleResult(i)); err != nil {
				t.Error(err)
			}
			if err := Count(metrics, exampleResult(i)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if all, err := n.Results(100); err != nil || len(all) != 50 {
		t.Errorf("%d results are there, %v", len(all), err)
	}
	has(t, metrics, `sedna_download_failures_total{kind="not_found"} 50`)
}

func TestHalfALineIsPassedOver(t *testing.T) {
	n := testNode(t)
	add(t, n, exampleResult(1))
	f, err := os.OpenFile(filepath.Join(n.State, resultsFile), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = f.WriteString("{\"time\":\n")
	f.Close()
	add(t, n, exampleResult(2))
	if all, err := n.Results(5); err != nil || len(all) != 2 {
		t.Errorf("%v, %v", all, err)
	}
}

// podLogs makes the folder that kubelet would.
func podLogs(t *testing.T) string {
	dir := filepath.Join(t.TempDir(), "ns_pod_uid")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestAPodsLogHasCRILines(t *testing.T) {
	dir := podLogs(t)
	for i := range 2 {
		if err := AddToPodLog(dir, exampleResult(i)); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(filepath.Join(dir, "sedna-storage", "0.log"))
	if err != nil {
		t.Fatal(err)
	}
	lines := regexp.MustCompile(`(?m)^2026-11-30T12:00:00(\.[0-9]+)?Z stdout F (\{.*\})$`).FindAllSubmatch(data, -1)
	if len(lines) != 2 || bytes.Count(data, []byte("\n")) != 2 {
		t.Fatalf("the log is\n%s", data)
	}
	var got Result
	if err := json.Unmarshal(lines[1][2], &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(exampleResult(1), got); diff != "" {
		t.Errorf("it says something else (-want +got):\n%s", diff)
	}
}

func TestAPodsLogIsPutAsideOnce(t *testing.T) {
	dir := podLogs(t)
	r := exampleResult(0)
	r.Failure.Message = strings.Repeat("x", maxLog/3)
	for range 9 {
		if err := AddToPodLog(dir, r); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := os.ReadDir(filepath.Join(dir, "sedna-storage"))
	if err != nil || len(entries) != 2 || entries[0].Name() != "0.log" || entries[1].Name() != "0.log.1" {
		t.Fatalf("there are %v, %v", entries, err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err != nil || info.Size() > maxLog {
			t.Errorf("%s has %d bytes", e.Name(), info.Size())
		}
	}
}

func TestAPodWithoutALogFolderGetsNoLog(t *testing.T) {
	parent := t.TempDir()
	for _, dir := range []string{"", "ns_pod_uid", parent, filepath.Join(parent, "ns_pod_uid"), filepath.Join(parent, "ns_pod_other")} {
		if err := AddToPodLog(dir, exampleResult(0)); err != nil {
			t.Errorf("%q: %v", dir, err)
		}
	}
	isEmpty(t, parent)
}

// Whoever may write into a pod's log folder must not make the shim, which is
// root, write elsewhere, nor wait.
func TestWhatIsPlantedInAPodsLogFolderIsNotFollowed(t *testing.T) {
	for name, plant := range map[string]func(t *testing.T, dir, victim string) error{
		"a link for the folder": func(_ *testing.T, dir, victim string) error {
			return os.Symlink(filepath.Dir(victim), filepath.Join(dir, "sedna-storage"))
		},
		"a link for the file": func(t *testing.T, dir, victim string) error {
			return os.Symlink(victim, filepath.Join(inside(t, dir), "0.log"))
		},
		"a second name of a file": func(t *testing.T, dir, victim string) error {
			return os.Link(victim, filepath.Join(inside(t, dir), "0.log"))
		},
		"a pipe": func(t *testing.T, dir, _ string) error {
			return unix.Mkfifo(filepath.Join(inside(t, dir), "0.log"), 0o600)
		},
		"a folder for the file": func(t *testing.T, dir, _ string) error {
			return os.Mkdir(filepath.Join(inside(t, dir), "0.log"), 0o700)
		},
		"a link for the pod's folder": func(_ *testing.T, dir, victim string) error {
			if err := os.Remove(dir); err != nil {
				return err
			}
			return os.Symlink(filepath.Dir(victim), dir)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := podLogs(t)
			victim := filepath.Join(t.TempDir(), "0.log")
			if err := os.WriteFile(victim, []byte("mine"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := plant(t, dir, victim); err != nil {
				t.Fatal(err)
			}
			if err := AddToPodLog(dir, exampleResult(0)); err == nil {
				t.Error("nobody is told")
			}
			entries, _ := os.ReadDir(filepath.Dir(victim))
			if got, _ := os.ReadFile(victim); string(got) != "mine" || len(entries) != 1 {
				t.Errorf("the file outside holds %q, its folder %v", got, entries)
			}
		})
	}
}

func inside(t *testing.T, dir string) string {
	t.Helper()
	dir = filepath.Join(dir, "sedna-storage")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}
