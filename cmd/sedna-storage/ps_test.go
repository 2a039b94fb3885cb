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

	"github.com/sedna-io/containerd-shim-sedna/storage/worker"
)

// psOf prints what these downloads look like.
func psOf(t *testing.T, output string, running ...worker.Running) string {
	t.Helper()
	dir := t.TempDir()
	for i, r := range running {
		data, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(dir, string(rune('a'+i))+".json")
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "z.json.new"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	o := psOptions{output: output, dir: dir, now: func() time.Time { return time.Unix(1012, 0) }}
	if err := o.run(&out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// detector is a download whose worker is the test itself.
func detector(t *testing.T, p worker.Progress) worker.Running {
	t.Helper()
	process, err := worker.ProcessOf(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	return worker.Running{
		Process: process, Pod: worker.Pod{Namespace: "vision", Name: "detector"},
		Mounts: []string{"model", "labels"}, Since: time.Unix(1000, 0), Progress: p,
	}
}

func TestPSShowsWhatRuns(t *testing.T) {
	for _, tt := range []struct {
		name string
		p    worker.Progress
		want []string
	}{
		{
			"half",
			worker.Progress{Bytes: 1 << 30, Total: 2 << 30, Rate: 64 << 20, Item: "https://host/model.bin"},
			[]string{"vision/detector", "model,labels", "[##########----------]  50 %", "1.0 GiB of 2.0 GiB", "64 MiB/s", "16s", "12s", "https://host/model.bin"},
		},
		{"of unknown size", worker.Progress{Bytes: 5 << 20, Rate: 1 << 20}, []string{"  ?  ", "5.0 MiB", "1.0 MiB/s"}},
		{"stalled", worker.Progress{Bytes: 1, Total: 4}, []string{"[#####---------------]  25 %", "0 B/s", "  ?  "}},
		{"waiting", worker.Progress{Total: 4, Waiting: "a free worker", Item: "x"}, []string{"waits for a free worker"}},
		{"with more than there should be", worker.Progress{Bytes: 9, Total: 4, Rate: 10}, []string{"[####################] 100 %", "0s"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := psOf(t, "table", detector(t, tt.p))
			for _, want := range tt.want {
				if !strings.Contains(got, want) {
					t.Errorf("%q isn't in\n%s", want, got)
				}
			}
		})
	}
}

func TestPSForgetsWhoseProcessIsGone(t *testing.T) {
	gone := detector(t, worker.Progress{})
	gone.Start = "1" // another process got the pid
	if got := psOf(t, "table", gone); strings.Contains(got, "detector") {
		t.Errorf("got\n%s", got)
	}
	if got := psOf(t, "json", gone); got != "[]\n" {
		t.Errorf("got %q", got)
	}
}

func TestPSIsForProgramsToo(t *testing.T) {
	var got []worker.Running
	if err := json.Unmarshal([]byte(psOf(t, "json", detector(t, worker.Progress{Bytes: 7}))), &got); err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || got[0].Pod.Name != "detector" || got[0].Progress.Bytes != 7 {
		t.Errorf("got %+v", got)
	}
}

func TestPSOfAnIdleNodeIsEmpty(t *testing.T) {
	var out bytes.Buffer
	o := psOptions{output: "table", dir: filepath.Join(t.TempDir(), "none"), now: time.Now}
	if err := o.run(&out); err != nil || strings.Count(out.String(), "\n") != 1 {
		t.Errorf("got %v:\n%s", err, out.String())
	}
	o.output = "yaml"
	var usage usageError
	if err := o.run(&out); !errors.As(err, &usage) {
		t.Errorf("a wrong format: %v", err)
	}
}
