// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/containerd/log"

	"github.com/sedna-io/containerd-shim-sedna/shim/bundle"
	"github.com/sedna-io/containerd-shim-sedna/storage/plan"
	"github.com/sedna-io/containerd-shim-sedna/storage/worker"
)

func TestAResultIsALineOfTheFormatOfContainersLogs(t *testing.T) {
	dir := t.TempDir()
	p := &sandbox{
		log: log.L, plan: &plan.Plan{Downloads: []plan.Download{{Mounts: []string{"model"}}, {Mounts: []string{"model", "b"}}}},
		pod: bundle.Pod{Namespace: "vision", Name: "detector", LogDirectory: dir},
	}
	p.tellResult(result{Error: "first", Progress: &worker.Progress{Bytes: 5}})
	p.tellResult(result{Report: &worker.Report{Bytes: 7}})
	data, err := os.ReadFile(filepath.Join(dir, "sedna-storage", "0.log"))
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.Split(bytes.TrimSpace(data), []byte("\n"))
	if len(lines) != 2 {
		t.Fatalf("got %q", data)
	}
	fields := strings.SplitN(string(lines[1]), " ", 4)
	if _, err := time.Parse(time.RFC3339Nano, fields[0]); err != nil || fields[1] != "stdout" || fields[2] != "F" {
		t.Errorf("got %q", lines[1])
	}
	var got result
	if err := json.Unmarshal([]byte(fields[3]), &got); err != nil {
		t.Fatal(err)
	}
	if got.Report.Bytes != 7 || got.Pod.Name != "detector" || strings.Join(got.Mounts, ",") != "model,b" {
		t.Errorf("got %+v", got)
	}
}

func TestResultsMakePlaceForNewOnes(t *testing.T) {
	dir := t.TempDir()
	line := bytes.Repeat([]byte("x"), maxResults)
	for range 3 {
		if err := appendResult(dir, time.Now(), line); err != nil {
			t.Fatal(err)
		}
	}
	if err := appendResult(dir, time.Now(), []byte("last")); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(filepath.Join(dir, "sedna-storage"))
	if err != nil || len(files) != 2 {
		t.Errorf("got %v, %v", files, err)
	}
	if data, _ := os.ReadFile(filepath.Join(dir, "sedna-storage", "0.log")); len(data) > 100 {
		t.Errorf("the newest has %d bytes", len(data))
	}
}

func TestAResultIsNotWrittenThroughALink(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	if err := os.Symlink(outside, filepath.Join(dir, "sedna-storage")); err != nil {
		t.Fatal(err)
	}
	if err := appendResult(dir, time.Now(), []byte("x")); err == nil {
		t.Error("it was written")
	}
	if files, _ := os.ReadDir(outside); len(files) > 0 {
		t.Errorf("got %v", files)
	}
}

func TestADownloadIsShownWhileItRunsAndForgottenByDelete(t *testing.T) {
	previous := runningDir
	runningDir = t.TempDir()
	t.Cleanup(func() { runningDir = previous })
	p := bare(t, t.TempDir())
	p.plan = &plan.Plan{Downloads: []plan.Download{{Mounts: []string{"model"}}}}
	p.pod.Name = "detector"
	process, err := worker.ProcessOf(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	r := p.running()
	r.begin(process)
	r.update(worker.Progress{Bytes: 5})
	shown, err := worker.ReadRunning(runningDir)
	if err != nil || len(shown) != 1 || shown[0].Progress.Bytes != 5 || shown[0].Pod.Name != "detector" {
		t.Errorf("got %+v, %v", shown, err)
	}
	// The shim dies, in the middle of writing.
	if err := os.WriteFile(r.path+unfinished, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := (workerNote{Sandbox: p.pod.SandboxID}).save(p.bundle.Dir); err != nil {
		t.Fatal(err)
	}
	if err := removePod(p.bundle.Dir); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(runningDir); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}

func TestADownloadGoesOnWhereItCantBeShown(t *testing.T) {
	previous := runningDir
	runningDir = filepath.Join(t.TempDir(), "file", "dir")
	t.Cleanup(func() { runningDir = previous })
	if err := os.WriteFile(filepath.Dir(runningDir), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p := bare(t, t.TempDir())
	p.plan = &plan.Plan{}
	r := p.running()
	r.begin(worker.Process{PID: os.Getpid()})
	r.update(worker.Progress{})
	if !r.told {
		t.Error("nobody was told")
	}
}
