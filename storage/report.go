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
func (e *engine) heartbeat(emit func(worker.Event)) (stop func()) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		ticker := time.NewTicker(e.every)
		defer ticker.Stop()
		speed := newSpeed(e.fetched.Load(), time.Now())
		for ended := false; ; {
			p := e.progress()
			p.Rate = speed.at(e.fetched.Load(), time.Now())
			if e.watch != nil {
				e.watch(e.underWay())
			}
			emit(worker.Event{Progress: &p})
			if ended {
				return
			}
			select {
			case <-ticker.C:
			case <-done:
				ended = true
			}
		}
	})
	return func() { close(done); wg.Wait() }
}

// lately is how far back a rate looks: what arrives comes in bursts.
const lately = 3 * time.Second

// speed is the rate of the last moments.
type speed []mark

type mark struct {
	bytes int64
	at    time.Time
}

func newSpeed(bytes int64, now time.Time) speed { return speed{{bytes, now}} }

// at notes how much there is now, and returns how fast it came, bytes per second.
func (s *speed) at(bytes int64, now time.Time) float64 {
	*s = append(*s, mark{bytes, now})
	for len(*s) > 2 && now.Sub((*s)[1].at) >= lately {
		*s = (*s)[1:]
	}
	first := (*s)[0]
	if d := now.Sub(first.at).Seconds(); d > 0 {
		return float64(bytes-first.bytes) / d
	}
	return 0
}

func (e *engine) progress() worker.Progress {
	p := worker.Progress{Bytes: e.bytes.Load(), Fetched: e.fetched.Load(), Files: e.files.Load()}
	if trouble := e.trouble.Load(); trouble != nil {
		p.Trouble = *trouble
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.listing == 0 {
		p.Total = max(e.expected.Load(), p.Bytes)
	}
	if len(e.transfers) > 0 {
		p.Item = e.transfers[0].item.URL.String()
	} else if len(e.queue) > 0 {
		p.Item = e.queue[0].item.URL.String()
	}
	return p
}

// underWay lists the open transfers.
func (e *engine) underWay() []FileProgress {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []FileProgress
	for _, t := range e.transfers {
		out = append(out, FileProgress{Path: t.path, Bytes: t.there(), Total: max(t.total(), 0)})
	}
	return out
}

func (e *engine) summary() summary {
	var s summary
	for i := range e.items {
		s.Items = append(s.Items, itemSummary{Bytes: e.items[i].bytes.Load(), Files: e.items[i].files.Load(), Digest: e.items[i].sum()})
	}
	return s
}

func (e *engine) report(started time.Time) *worker.Report {
	out := &worker.Report{
		Bytes: e.bytes.Load(), Fetched: e.fetched.Load(), Files: e.files.Load(), Duration: time.Since(started),
	}
	for i := range e.items {
		s := &e.items[i]
		out.Items = append(out.Items, worker.ItemReport{
			Mounts: e.req.Items[i].Mounts, URL: e.req.Items[i].URL.String(), Path: e.req.Items[i].Path,
			Bytes: s.bytes.Load(), Fetched: s.fetched.Load(), Files: s.files.Load(),
			Duration: time.Duration(s.elapsed.Load()), Attempts: int(s.attempts.Load()), Digest: s.sum(),
		})
	}
	return out
}

// found is the report of a request that an earlier run finished.
func (e *engine) foundAll(s *summary, started time.Time) *worker.Report {
	out := &worker.Report{Duration: time.Since(started)}
	for i, item := range s.Items {
		out.Bytes += item.Bytes
		out.Files += item.Files
		if i >= len(e.req.Items) {
			continue
		}
		out.Items = append(out.Items, worker.ItemReport{
			Mounts: e.req.Items[i].Mounts, URL: e.req.Items[i].URL.String(), Path: e.req.Items[i].Path,
			Bytes: item.Bytes, Files: item.Files, Digest: item.Digest, Cache: "found",
		})
	}
	return out
}
