// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sedna-io/containerd-shim-sedna/internal/version"
	"github.com/sedna-io/containerd-shim-sedna/storage/plan"
	"github.com/sedna-io/containerd-shim-sedna/storage/storagetest"
	"github.com/sedna-io/containerd-shim-sedna/storage/worker"
)

func requestLine(t *testing.T, req worker.Request) string {
	t.Helper()
	b, err := json.Marshal(req)
	if err != nil {
		t.Fatal(err)
	}
	return string(b) + "\n"
}

func download(t *testing.T, raw, path string) worker.Item {
	t.Helper()
	u, err := plan.ParseURL(raw)
	if err != nil {
		t.Fatal(err)
	}
	return worker.Item{Download: plan.Download{Mounts: []string{"m"}, URL: u, Path: path}}
}

// work runs the worker command on a request that stays open, and returns its
// events.
func work(t *testing.T, line string) ([]worker.Event, error) {
	t.Helper()
	in, open := io.Pipe()
	defer open.Close()
	go func() { _, _ = open.Write([]byte(line)) }()
	var out bytes.Buffer
	root := newRoot()
	root.SetArgs([]string{"worker"})
	root.SetIn(in)
	root.SetOut(&out)
	err := root.ExecuteContext(t.Context())
	var events []worker.Event
	for lines := bufio.NewScanner(&out); lines.Scan(); {
		var e worker.Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatalf("%q is no event: %v", lines.Text(), err)
		}
		events = append(events, e)
	}
	if len(events) == 0 {
		t.Fatalf("it wrote no event; its error: %v", err)
	}
	return events, err
}

func TestWorkerReportsLast(t *testing.T) {
	web := storagetest.NewFiles()
	web.Put("/f", []byte("data"))
	s := storagetest.Serve(t, web, nil)
	dir := t.TempDir()
	events, err := work(t, requestLine(t, worker.Request{
		Version: version.Version, Dir: dir, Items: []worker.Item{download(t, s.URL+"/f?sig=CANARY", "h/f")},
	}))
	if err != nil {
		t.Fatal(err)
	}
	last := events[len(events)-1]
	if last.Report == nil || last.Report.Files != 1 {
		t.Fatalf("the last event is %+v", last)
	}
	if b, _ := os.ReadFile(filepath.Join(dir, "h/f")); string(b) != "data" {
		t.Errorf("the file holds %q", b)
	}
}

func TestWorkerTellsItsFailureAndNoSecret(t *testing.T) {
	good := worker.Request{Version: version.Version, Dir: t.TempDir(), Items: []worker.Item{download(t, "http://127.0.0.1:1/f?sig=CANARY", "f")}}
	other := good
	other.Version = "v0.0.0-other"
	nowhere := good
	nowhere.Dir = "/does/not/exist"
	for name, tt := range map[string]struct{ line, kind, says string }{
		"a dead server":   {requestLine(t, good), "unavailable", "refused"},
		"another version": {requestLine(t, other), "invalid_argument", "v0.0.0-other"},
		"no volume":       {requestLine(t, nowhere), "internal", "open the pod's volume"},
		"no request":      {`{"items":[{"credentials":"CANARY` + "\n", "invalid_argument", "can't be read"},
	} {
		t.Run(name, func(t *testing.T) {
			events, err := work(t, tt.line)
			f := events[len(events)-1].Failure
			if !errors.Is(err, errTold) || f == nil || f.Kind != tt.kind || !strings.Contains(f.Message, tt.says) {
				t.Fatalf("it failed with %+v, %v", f, err)
			}
			if strings.Contains(f.Message, "CANARY") || strings.Contains(f.Message, "\n") {
				t.Errorf("the message is %q", f.Message)
			}
		})
	}
}

func TestWorkerEndsWithItsInput(t *testing.T) {
	web := storagetest.NewFiles()
	web.Put("/f", storagetest.Bytes(1<<20))
	s := storagetest.Serve(t, web, storagetest.Always(storagetest.Stall(10)))
	in, shim := io.Pipe()
	asked := make(chan struct{})
	s.Watch(func(*http.Request) { close(asked) })
	go func() {
		_, _ = shim.Write([]byte(requestLine(t, worker.Request{
			Version: version.Version, Dir: t.TempDir(), Items: []worker.Item{download(t, s.URL+"/f", "f")},
		})))
		<-asked
		shim.Close()
	}()
	ended := make(chan error, 1)
	go func() {
		_, err := serve(t.Context(), in, io.Discard)
		ended <- err
	}()
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("error is %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("it goes on without its shim")
	}
}

func TestRequestsAreBounded(t *testing.T) {
	endless := io.MultiReader(strings.NewReader(`{"x":"`), zeros{})
	if _, err := readRequest(bufio.NewReader(endless)); err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Errorf("error is %v", err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '0'
	}
	return len(p), nil
}
