// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/sedna-io/containerd-shim-sedna/internal/config"
	"github.com/sedna-io/containerd-shim-sedna/internal/observe"
	"github.com/sedna-io/containerd-shim-sedna/shim/bundle"
	"github.com/sedna-io/containerd-shim-sedna/storage/plan"
	"github.com/sedna-io/containerd-shim-sedna/storage/worker"
)

// downloading is a pod in the middle of its downloads, on a node of its own.
type downloading struct {
	*sandbox
	log  *bytes.Buffer
	logs string // the pod's log folder
}

func newDownloading(t *testing.T) downloading {
	t.Helper()
	before := observed
	t.Cleanup(func() { observed = before })
	observed = observe.Node{Run: filepath.Join(t.TempDir(), "run"), State: filepath.Join(t.TempDir(), "state")}

	d := downloading{log: &bytes.Buffer{}, logs: filepath.Join(t.TempDir(), "ns_pod_uid")}
	if err := os.Mkdir(d.logs, 0o755); err != nil {
		t.Fatal(err)
	}
	logger := logrus.New()
	logger.SetOutput(d.log)
	asked, err := plan.Parse(map[string]string{
		"storage.sedna.io/model.url":   "https://user:" + canary + "@host/m?token=" + canary,
		"storage.sedna.io/data.url":    "s3://bucket/d/",
		"storage.sedna.io/s3-endpoint": "minio:9000",
	})
	if err != nil {
		t.Fatal(err)
	}
	cfg := config.Default()
	cfg.Storage.MetricsFile = filepath.Join(t.TempDir(), "sedna.prom")
	d.sandbox = &sandbox{
		cfg: cfg, plan: asked, bundle: &bundle.Bundle{Dir: "/bundles/box"},
		pod: bundle.Pod{Namespace: "ns", Name: "pod", UID: "uid", LogDirectory: d.logs},
	}
	d.sandbox.log = podLog(log.WithLogger(t.Context(), logrus.NewEntry(logger)), d.pod)
	return d
}

func (d downloading) start() *progress {
	req := worker.Request{Pod: workerPod(d.pod)}
	for _, item := range d.plan.Downloads {
		req.Items = append(req.Items, worker.Item{Download: item})
	}
	return d.follow(req)
}

// lacksSecrets looks into everything that was written.
func (d downloading) lacksSecrets(t *testing.T) {
	t.Helper()
	texts := map[string]string{"log": d.log.String()}
	for _, dir := range []string{observed.Run, observed.State, d.logs, filepath.Dir(d.cfg.Storage.MetricsFile)} {
		_ = filepath.WalkDir(dir, func(name string, _ os.DirEntry, _ error) error {
			data, _ := os.ReadFile(name)
			texts[name] = string(data)
			return nil
		})
	}
	for name, text := range texts {
		if strings.Contains(text, canary) {
			t.Errorf("the secret is in %s:\n%s", name, text)
		}
	}
}

func TestARunningDownloadIsSeenOnTheNode(t *testing.T) {
	d := newDownloading(t)
	watch := d.start()
	running := func() observe.Running {
		t.Helper()
		all, err := observed.Downloads()
		if err != nil || len(all) != 1 {
			t.Fatalf("seen are %v, %v", all, err)
		}
		return all[0]
	}
	first := running()
	if first.Pod.Name != "pod" || first.Sandbox != "box" || strings.Join(first.Mounts, " ") != "data model" {
		t.Errorf("the record is %+v", first)
	}
	said := worker.Progress{Bytes: 5, Total: 10, Rate: 2, Item: "https://host/m", Waiting: "a turn", Trouble: "host reset the connection"}
	now := first.Since.Add(recordEvery)
	watch.onAt(worker.Event{Progress: &said}, now)
	if got := running().Progress; got != said {
		t.Errorf("it shows %+v", got)
	}
	t.Run("at most once a second", func(t *testing.T) {
		watch.onAt(worker.Event{Progress: &worker.Progress{Bytes: 6}}, now.Add(recordEvery-1))
		if got := running().Progress.Bytes; got != 5 {
			t.Errorf("written after less than a second: %d", got)
		}
		watch.onAt(worker.Event{Progress: &worker.Progress{Bytes: 7}}, now.Add(recordEvery))
		if got := running().Progress.Bytes; got != 7 {
			t.Errorf("not written after a second: %d", got)
		}
	})
	d.lacksSecrets(t)
	d.conclude(time.Now(), nil)
	if all, err := observed.Downloads(); err != nil || len(all) > 0 {
		t.Errorf("seen after the end: %v, %v", all, err)
	}
	if left, _ := os.ReadDir(observed.Run); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestTheLogTellsABeginningHeartbeatsAndAnEnd(t *testing.T) {
	d := newDownloading(t)
	watch := d.start()
	now := time.Now()
	watch.onAt(worker.Event{Progress: &worker.Progress{Bytes: 5 << 20, Total: 10 << 20, Rate: 1 << 20, Item: "https://host/m"}}, now)
	watch.beat(now.Add(progressEvery - time.Second))
	watch.beat(now.Add(4 * progressEvery))
	d.conclude(now, nil)
	lines := strings.Split(strings.TrimSpace(d.log.String()), "\n")
	if len(lines) != 4 {
		t.Fatalf("the log is\n%s", d.log)
	}
	for i, want := range [][]string{
		{"begins"},
		{"5.0 MiB of 10 MiB (50 %)", "1.0 MiB/s", "https://host/m"},
		{"5.0 MiB of 10 MiB", "said nothing for 40s"},
		{"download result"},
	} {
		for _, part := range append(want, "level=info", "pod=ns/pod") {
			if !strings.Contains(lines[i], part) {
				t.Errorf("%q is not in %s", part, lines[i])
			}
		}
		if i < 3 && (!strings.Contains(lines[i], "model") || !strings.Contains(lines[i], "data")) {
			t.Errorf("the mounts' names are not in %s", lines[i])
		}
	}
	if strings.Contains(lines[1], "said nothing") {
		t.Errorf("a worker that has just spoken is called silent: %s", lines[1])
	}
}

func TestAWorkerCantEndOrFloodTheShimByItsLog(t *testing.T) {
	d := newDownloading(t)
	watch := d.start()
	for _, level := range []string{"panic", "fatal", "", "error", "warning", "debug"} {
		watch.on(worker.Event{Log: &worker.Log{Level: level, Message: "says " + level}})
	}
	for range 3 * maxLines {
		watch.on(worker.Event{Log: &worker.Log{Level: "info", Message: "again"}})
	}
	if n := strings.Count(d.log.String(), "\n"); n > maxLines+10 {
		t.Errorf("%d lines are in the log", n)
	}
	watch.on(worker.Event{Progress: &worker.Progress{Item: strings.Repeat("x", 1<<20), Waiting: strings.Repeat("x", 1<<20), Trouble: strings.Repeat("x\n", 1<<20)}})
	if far := watch.far(); len(far) > 3*maxItem {
		t.Errorf("a line has %d bytes", len(far))
	}
	watch.finish()
}

func TestANodeThatCantKeepRecordsRunsThePodAllTheSame(t *testing.T) {
	d := newDownloading(t)
	// A file where the folder should be fails as a full /run does, for root too.
	for _, dir := range []string{observed.Run, observed.State} {
		if err := os.WriteFile(dir, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	watch := d.start()
	for i := range 5 {
		watch.onAt(worker.Event{Progress: &worker.Progress{}}, time.Now().Add(time.Duration(i)*time.Hour))
	}
	d.conclude(time.Now(), nil)
	for _, once := range []string{"won't show this download", "ps --results"} {
		if n := strings.Count(d.log.String(), once); n != 1 {
			t.Errorf("%q is logged %d times:\n%s", once, n, d.log)
		}
	}
}

// results reads the result from each place where it is.
func (d downloading) results(t *testing.T) (results map[string]observe.Result) {
	t.Helper()
	kept, err := observed.Results(1)
	if err != nil || len(kept) != 1 {
		t.Fatalf("kept are %v, %v", kept, err)
	}
	results = map[string]observe.Result{"kept": kept[0]}
	podLog, err := os.ReadFile(filepath.Join(d.logs, "sedna-storage", "0.log"))
	if err != nil {
		t.Fatal(err)
	}
	_, line, _ := strings.Cut(string(podLog), " stdout F ")
	results["pod's log"] = parseResult(t, line)
	for line := range strings.Lines(d.log.String()) {
		if _, quoted, ok := strings.Cut(line, `msg="download result: `); ok {
			quoted = quoted[:strings.LastIndex(quoted, `}"`)+1]
			results["shim's log"] = parseResult(t, strings.ReplaceAll(quoted, `\"`, `"`))
		}
	}
	return results
}

func parseResult(t *testing.T, text string) (r observe.Result) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return r
}

func TestAResultSaysHowADownloadEnded(t *testing.T) {
	pod := worker.Pod{Namespace: "ns", Name: "pod", UID: "uid"}
	data := observe.Item{Mounts: []string{"data"}, URL: "s3://bucket/d/", Host: "minio:9000"}
	for _, tt := range []struct {
		name string
		end  func(d downloading) error
		want observe.Result
		says string // the failure's message holds it
	}{
		{
			name: "whole",
			end: func(d downloading) error {
				var items []worker.ItemReport
				for _, item := range d.plan.Downloads {
					items = append(items, worker.ItemReport{
						URL: item.URL.String(), Bytes: 4, Fetched: 3, Files: 2, Duration: time.Second, Attempts: 5, Cache: "miss", Digest: "sha256:x",
					})
				}
				d.watch.took(worker.Usage{Memory: 64 << 20, CPU: 1500 * time.Millisecond})
				d.watch.done(&worker.Report{Bytes: 8, Fetched: 6, Files: 4, Items: items})
				return nil
			},
			want: observe.Result{
				Result: observe.Success, Bytes: 8, Fetched: 6, Files: 4, Memory: 64 << 20, CPU: 1.5,
				Items: []observe.Item{{
					Mounts: data.Mounts, URL: data.URL, Host: data.Host,
					Bytes: 4, Fetched: 3, Files: 2, Seconds: 1, Attempts: 5, Cache: "miss", Digest: "sha256:x",
				}},
			},
		},
		{
			name: "in the worker's failure",
			end: func(downloading) error {
				return fmt.Errorf("x: %w", &worker.Error{Failure: worker.Failure{Kind: "permission_denied", Message: "403\nfor the bucket"}})
			},
			want: observe.Result{
				Result: observe.Failed, Bytes: 2, Fetched: 1, Items: []observe.Item{data},
				Failure: &worker.Failure{Kind: "permission_denied"},
			},
			says: "403 for the bucket",
		},
		{
			name: "at its deadline",
			end:  func(downloading) error { return fmt.Errorf("not finished: %w", errOutOfTime) },
			want: observe.Result{
				Result: observe.Failed, Bytes: 2, Fetched: 1, Items: []observe.Item{data},
				Failure: &worker.Failure{Kind: "deadline_exceeded"},
			},
			says: "not finished",
		},
		{
			name: "cancelled",
			end:  func(downloading) error { return fmt.Errorf("download was cancelled: %w", errKilled) },
			want: observe.Result{
				Result: observe.Canceled, Bytes: 2, Fetched: 1, Items: []observe.Item{data},
				Failure: &worker.Failure{Kind: "canceled"},
			},
			says: "killed",
		},
		{
			name: "with a worker that isn't there",
			end:  func(downloading) error { return fmt.Errorf("find the worker: %w", errdefs.ErrNotFound) },
			want: observe.Result{
				Result: observe.Failed, Bytes: 2, Fetched: 1, Items: []observe.Item{data},
				Failure: &worker.Failure{Kind: "not_found"},
			},
			says: "find the worker",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := newDownloading(t)
			d.start().on(worker.Event{Progress: &worker.Progress{Bytes: 2, Fetched: 1}})
			d.conclude(time.Now().Add(-3*time.Second), tt.end(d))
			tt.want.Pod, tt.want.Sandbox = pod, "box"
			results := d.results(t)
			if len(results) != 3 {
				t.Fatalf("not in all places: %v", results)
			}
			for where, got := range results {
				if got.Seconds < 3 || got.Time.IsZero() {
					t.Errorf("%s: it took %v and ended at %v", where, got.Seconds, got.Time)
				}
				if got.Failure != nil && !strings.Contains(got.Failure.Message, tt.says) {
					t.Errorf("%s: it says %s", where, got.Failure.Message)
				}
				if len(got.Items) != 2 || got.Items[1].URL != "https://host/m" && !strings.HasPrefix(got.Items[1].URL, "https://") {
					t.Errorf("%s: its items are %+v", where, got.Items)
				}
				got.Items = got.Items[:1]
				diff := cmp.Diff(tt.want, got, cmpopts.IgnoreFields(observe.Result{}, "Time", "Seconds"), cmpopts.IgnoreFields(worker.Failure{}, "Message"))
				if diff != "" {
					t.Errorf("%s says something else (-want +got):\n%s", where, diff)
				}
			}
			d.lacksSecrets(t)
			metrics, err := os.ReadFile(d.cfg.Storage.MetricsFile)
			if err != nil || !strings.Contains(string(metrics), `sedna_downloads_total{result="`+tt.want.Result+`"} 1`) {
				t.Errorf("counted otherwise, %v:\n%s", err, metrics)
			}
		})
	}
}

func TestAFailureBeforeTheWorkerHasAResultToo(t *testing.T) {
	d := newDownloading(t)
	d.conclude(time.Now(), errors.New("no volume "+strings.Repeat("ä", maxMessage)))
	for where, r := range d.results(t) {
		if r.Result != observe.Failed || r.Failure.Kind != "internal" || len(r.Items) != 2 || r.Items[0].Host != "minio:9000" {
			t.Errorf("%s: %+v", where, r)
		}
		if len(r.Failure.Message) > maxMessage {
			t.Errorf("%s: the message has %d bytes", where, len(r.Failure.Message))
		}
	}
	d.lacksSecrets(t)
}

func TestADeadShimsDownloadHasAResultToo(t *testing.T) {
	d := newDownloading(t)
	watch := d.start()
	watch.onAt(worker.Event{Progress: &worker.Progress{Bytes: 5, Fetched: 4, Item: "https://host/m"}}, time.Now().Add(time.Hour))
	if concludeDead(t.TempDir(), "box"); len(d.kept(t)) > 0 {
		t.Fatal("a download that runs has a result")
	}
	dead := watch.running
	dead.Process.Start = "1"
	if err := observed.Write(dead); err != nil {
		t.Fatal(err)
	}
	for range 2 { // again and again
		concludeDead(d.deadBundle(t), "box")
	}
	if kept := d.kept(t); len(kept) != 1 {
		t.Fatalf("its results are %v", kept)
	}
	for where, r := range d.results(t) {
		if r.Result != observe.Failed || r.Pod.Name != "pod" || r.Bytes != 5 || r.Fetched != 4 || r.Items[0].URL != "https://host/m" {
			t.Errorf("%s: %+v", where, r)
		}
	}
	metrics, err := os.ReadFile(d.cfg.Storage.MetricsFile)
	if err != nil || !strings.Contains(string(metrics), `sedna_downloads_total{result="failure"} 1`) {
		t.Errorf("counted otherwise, %v:\n%s", err, metrics)
	}
	if left, _ := os.ReadDir(observed.Run); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	watch.finish()
}

// deadBundle is what `delete` finds: the spec and the configuration's path.
func (d downloading) deadBundle(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	config := filepath.Join(t.TempDir(), "config.toml")
	for file, text := range map[string]string{
		filepath.Join(dir, "config.json"): fmt.Sprintf(`{"annotations": {
			"io.kubernetes.cri.container-type": "sandbox", "io.kubernetes.cri.sandbox-id": "box",
			"io.kubernetes.cri.sandbox-namespace": "ns", "io.kubernetes.cri.sandbox-name": "pod", "io.kubernetes.cri.sandbox-uid": "uid",
			"io.kubernetes.cri.sandbox-log-directory": %q}}`, d.logs),
		filepath.Join(dir, configPathFile): config,
		config:                             fmt.Sprintf("[storage]\nmetrics_file = %q\n", d.cfg.Storage.MetricsFile),
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func (d downloading) kept(t *testing.T) []observe.Result {
	t.Helper()
	kept, err := observed.Results(10)
	if err != nil {
		t.Fatal(err)
	}
	return kept
}

func TestAResultThatCantBeWrittenInTimeHoldsNobody(t *testing.T) {
	d := newDownloading(t)
	if err := os.MkdirAll(observed.State, 0o755); err != nil {
		t.Fatal(err)
	}
	held, err := os.Open(observed.State)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Flock(int(held.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	d.conclude(time.Now(), errKilled) // returns
	if !strings.Contains(d.log.String(), "isn't everywhere") {
		t.Errorf("nobody is told:\n%s", d.log)
	}
	// What waits for the lock must be done before the test's folders go.
	_ = held.Close()
	for counted := false; !counted; {
		data, _ := os.ReadFile(d.cfg.Storage.MetricsFile)
		counted = len(data) > 0
		runtime.Gosched()
	}
}

func TestAKindIsWhatItUnwrapsTo(t *testing.T) {
	for err, want := range map[error]string{
		context.Canceled:              "canceled",
		errKilled:                     "canceled",
		errOutOfTime:                  "deadline_exceeded",
		errdefs.ErrResourceExhausted:  "resource_exhausted",
		errors.New("x"):               "internal",
		&worker.Error{}:               "internal",
		os.ErrNotExist:                "internal",
		errdefs.ErrFailedPrecondition: "failed_precondition",
		error(&worker.Error{Failure: worker.Failure{Kind: "data_loss"}}): "data_loss",
	} {
		if got := worker.KindOf(fmt.Errorf("x: %w", err)); got != want {
			t.Errorf("%v is %s, want %s", err, got, want)
		}
	}
}
