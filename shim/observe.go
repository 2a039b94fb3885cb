// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	taskapi "github.com/containerd/containerd/api/runtime/task/v2"

	"github.com/sedna-io/containerd-shim-sedna/internal/observe"
	"github.com/sedna-io/containerd-shim-sedna/shim/bundle"
	"github.com/sedna-io/containerd-shim-sedna/storage/plan"
	"github.com/sedna-io/containerd-shim-sedna/storage/worker"
)

// How long a pod waits for its result to be written: a file system that hangs
// must not hold it, and a cancelled Create has two seconds in all.
const (
	publishTime        = time.Second
	publishTimeHurried = 150 * time.Millisecond
)

// maxMessage bounds the text of a failure in a result, bytes.
const maxMessage = 8 << 10

// follow begins to follow the download of a request.
func (p *sandbox) follow(req worker.Request) *progress {
	p.items = resultItems(req)
	self, err := observe.Self()
	if err != nil {
		p.log.WithError(err).Warn("find out this process's start time")
	}
	now := time.Now()
	p.watch = startProgress(p.log, observed, p.mounts(), p.limit, observe.Running{
		Pod: req.Pod, Sandbox: filepath.Base(p.bundle.Dir), Mounts: p.mountNames(),
		Process: self, Since: now, Updated: now, Progress: worker.Progress{Item: req.Items[0].URL.String()},
	})
	return p.watch
}

// limit is the node's bandwidth and how many downloads share it now.
func (p *sandbox) limit() *observe.Limit {
	s := p.cfg.Storage
	if s.Bandwidth <= 0 {
		return nil
	}
	return &observe.Limit{Bandwidth: int64(s.Bandwidth), Downloads: takenSlots(s.MaxWorkers)}
}

// observed is where this node's downloads are seen.
var observed = observe.DefaultNode()

// conclude tells how the downloads ended, in all the places where people look.
// The worker is gone. Nothing that fails here fails the pod.
func (p *sandbox) conclude(began time.Time, err error) {
	if p.watch != nil {
		p.watch.finish()
	}
	r := p.result(began, time.Now(), err)
	line, failed := json.Marshal(r)
	if failed != nil {
		p.log.WithError(failed).Error("encode the result of a download")
		return
	}
	p.log.Infof("download result: %s", line)
	if err := publish(p.pod.LogDirectory, p.cfg.Storage.MetricsFile, r); err != nil {
		p.log.WithError(err).Warn("the result of a download isn't everywhere")
	}
}

// publish writes a result into the node's files, and waits for them only so
// long.
func publish(podLogs, metrics string, r observe.Result) error {
	done := make(chan error, 1)
	go func() { done <- quietly(func() error { return publishAll(podLogs, metrics, r) }) }()
	wait := publishTime
	if r.Result == observe.Canceled {
		wait = publishTimeHurried
	}
	late := time.NewTimer(wait)
	defer late.Stop()
	select {
	case err := <-done:
		return err
	case <-late.C:
		return fmt.Errorf("not written after %s: %w", wait, context.DeadlineExceeded)
	}
}

// publishAll lets no place that fails stop another.
func publishAll(podLogs, metrics string, r observe.Result) error {
	var errs []error
	if err := observed.AddResult(r); err != nil {
		errs = append(errs, fmt.Errorf("write it for `sedna-storage ps --results`: %w", err))
	}
	if err := observe.AddToPodLog(podLogs, r); err != nil {
		errs = append(errs, fmt.Errorf("write it into the pod's log folder: %w", err))
	}
	if metrics != "" {
		if err := observe.Count(metrics, r); err != nil {
			errs = append(errs, fmt.Errorf("count it in [storage] metrics_file: %w", err))
		}
	}
	return errors.Join(errs...)
}

// result is how it ended. A failed attempt has the figures of its last
// progress, and those of no single item.
func (p *sandbox) result(began, now time.Time, err error) observe.Result {
	r := observe.Result{
		Time: now.UTC(), Pod: workerPod(p.pod), Sandbox: filepath.Base(p.bundle.Dir),
		Result: observe.Success, Seconds: seconds(now.Sub(began)), Items: p.items,
	}
	if r.Items == nil { // it failed before there was a request
		for _, d := range p.plan.Downloads {
			r.Items = append(r.Items, resultItem(d, plan.Credentials{}))
		}
	}
	if p.watch != nil {
		p.watch.tell(&r)
	}
	if err != nil {
		r.Result = observe.Failed
		r.Failure = &worker.Failure{Kind: worker.KindOf(err), Message: oneLine(err.Error())}
		if r.Failure.Kind == "canceled" {
			r.Result = observe.Canceled
		}
	}
	return r
}

// tell writes into r what the worker reported, or how far it got.
func (p *progress) tell(r *observe.Result) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r.Memory, r.CPU = p.usage.Memory, seconds(p.usage.CPU)
	if p.report == nil {
		last := p.running.Progress
		r.Bytes, r.Fetched, r.Files = last.Bytes, last.Fetched, last.Files
		return
	}
	r.Bytes, r.Fetched, r.Files = p.report.Bytes, p.report.Fetched, p.report.Files
	for i, item := range p.report.Items {
		if i >= len(r.Items) {
			return
		}
		to := &r.Items[i]
		to.Bytes, to.Fetched, to.Files = item.Bytes, item.Fetched, item.Files
		to.Seconds, to.Attempts, to.Cache = seconds(item.Duration), item.Attempts, item.Cache
		if item.Digest != "" {
			to.Digest = item.Digest
		}
	}
}

func resultItems(req worker.Request) []observe.Item {
	var items []observe.Item
	for _, item := range req.Items {
		items = append(items, resultItem(item.Download, item.Credentials))
	}
	return items
}

// resultItem is what is known of a download before it begins. A host that
// isn't one is an error of its own, elsewhere.
func resultItem(d plan.Download, c plan.Credentials) observe.Item {
	host, _, _ := d.Endpoint(c)
	return observe.Item{Mounts: d.Mounts, URL: d.URL.String(), Host: host, Digest: d.Digest}
}

// concludeDead tells how a download ended whose shim has died, by the record
// that it left. It is for the `delete` command, which has nobody to tell of an
// error, and must not keep the bundle for one.
func concludeDead(dir, id string) {
	left, err := observed.TakeDead(id)
	if err != nil || left == nil {
		return
	}
	far := left.Progress
	r := observe.Result{
		Time: left.Updated.UTC(), Pod: left.Pod, Sandbox: left.Sandbox, Result: observe.Failed,
		Bytes: far.Bytes, Fetched: far.Fetched, Files: far.Files, Seconds: seconds(left.Updated.Sub(left.Since)),
		Items: []observe.Item{{Mounts: left.Mounts, URL: far.Item}},
		Failure: &worker.Failure{Kind: "unavailable", Message: "the pod's shim was killed or has crashed in the middle of the download: " + howFar(far) +
			"; the data is kept, and the next attempt goes on from there"},
	}
	logs, metrics := "", ""
	if b, err := bundle.Load(dir); err == nil {
		if pod, err := b.Pod(); err == nil {
			logs = pod.LogDirectory
		}
	}
	if cfg, err := loadConfig(&taskapi.CreateTaskRequest{Bundle: dir}); err == nil {
		metrics = cfg.Storage.MetricsFile
	}
	_ = publish(logs, metrics, r)
}

func seconds(d time.Duration) float64 { return d.Round(time.Millisecond).Seconds() }

// oneLine cuts a message to what a log can take, between two characters.
func oneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	return strings.ToValidUTF8(s[:min(len(s), maxMessage)], "")
}
