// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"sync"
	"time"

	"github.com/sedna-io/containerd-shim-sedna/storage/worker"
)

// beat is how often progress is told.
const beat = 500 * time.Millisecond

// heartbeat tells emit how far the run is until stop is called, which tells
// it a last time.
func (r *run) heartbeat(emit func(worker.Event)) (stop func()) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		ticker := time.NewTicker(beat)
		defer ticker.Stop()
		last, at := r.fetched.Load(), time.Now()
		for {
			p := r.progress()
			now, moment := r.fetched.Load(), time.Now()
			if d := moment.Sub(at).Seconds(); d > 0 {
				p.Rate = float64(now-last) / d
			}
			last, at = now, moment
			emit(worker.Event{Progress: &p})
			select {
			case <-ticker.C:
			case <-done:
				return
			}
		}
	})
	return func() { close(done); wg.Wait() }
}

func (r *run) progress() worker.Progress {
	return worker.Progress{Bytes: r.bytes.Load(), Files: r.files.Load()}
}

func (r *run) summary() summary {
	var s summary
	for i := range r.items {
		s.Items = append(s.Items, itemSummary{Bytes: r.items[i].bytes.Load(), Files: r.items[i].files.Load()})
	}
	return s
}

func (r *run) report(started time.Time) *worker.Report {
	out := &worker.Report{
		Bytes: r.bytes.Load(), Fetched: r.fetched.Load(), Files: r.files.Load(), Duration: time.Since(started),
	}
	for i := range r.items {
		s := &r.items[i]
		out.Items = append(out.Items, worker.ItemReport{
			Mounts: r.req.Items[i].Mounts, URL: r.req.Items[i].URL.String(), Path: r.req.Items[i].Path,
			Bytes: s.bytes.Load(), Fetched: s.fetched.Load(), Files: s.files.Load(),
			Duration: time.Duration(s.elapsed.Load()), Attempts: int(s.attempts.Load()),
		})
	}
	return out
}

// found is the report of a request that an earlier run finished.
func (r *run) found(s *summary, started time.Time) *worker.Report {
	out := &worker.Report{Duration: time.Since(started)}
	for i, item := range s.Items {
		out.Bytes += item.Bytes
		out.Files += item.Files
		if i >= len(r.req.Items) {
			continue
		}
		out.Items = append(out.Items, worker.ItemReport{
			Mounts: r.req.Items[i].Mounts, URL: r.req.Items[i].URL.String(), Path: r.req.Items[i].Path,
			Bytes: item.Bytes, Files: item.Files, Digest: item.Digest, Cache: "found",
		})
	}
	return out
}
