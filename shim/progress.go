// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"fmt"
	"sync"
	"time"

	"github.com/containerd/log"
	"github.com/dustin/go-humanize"

	"github.com/sedna-io/containerd-shim-sedna/internal/observe"
	"github.com/sedna-io/containerd-shim-sedna/storage/worker"
)

const (
	// progressEvery is how often a running download gets a line in the log.
	progressEvery = 10 * time.Second
	// recordEvery is how often its record is written, at most.
	recordEvery = time.Second
	// maxLines bounds what a worker may say in the shim's log.
	maxLines = 1000
	// maxItem bounds the URL that a worker names, bytes.
	maxItem = 1024
)

// progress follows one download: lines in the log, the record on the node, and
// what its result will say.
type progress struct {
	log  *log.Entry
	node observe.Node
	// mounts is the mounts' names, for people.
	mounts string
	// limit tells what holds the download back now, nil for nothing.
	limit func() *observe.Limit

	mu       sync.Mutex
	running  observe.Running // guarded by mu
	heard    time.Time       // of the last progress; guarded by mu
	lines    int             // logged for the worker; guarded by mu
	unkept   bool            // that the record can't be written is told; guarded by mu
	report   *worker.Report  // guarded by mu
	usage    worker.Usage    // guarded by mu
	finished bool            // guarded by mu

	stop chan struct{}
	wg   sync.WaitGroup
}

// startProgress begins to follow r. Its caller ends that by finish.
func startProgress(logger *log.Entry, node observe.Node, mounts string, limit func() *observe.Limit, r observe.Running) *progress {
	p := &progress{
		log: logger.WithField("mounts", r.Mounts), node: node, mounts: mounts, limit: limit,
		running: r, heard: r.Since, stop: make(chan struct{}),
	}
	p.log.Infof("download for %s begins", mounts)
	p.keep(r)
	p.wg.Go(func() {
		ticker := time.NewTicker(progressEvery)
		defer ticker.Stop()
		for {
			select {
			case now := <-ticker.C:
				p.beat(now)
			case <-p.stop:
				return
			}
		}
	})
	return p
}

// beat writes the line by which a slow download is told from one that hangs,
// whatever the worker does.
func (p *progress) beat(now time.Time) {
	p.mu.Lock()
	item, silent := p.running.Progress.Item, now.Sub(p.heard)
	p.mu.Unlock()
	text := p.far()
	if silent >= progressEvery {
		text += fmt.Sprintf("; the worker has said nothing for %s", silent.Round(time.Second))
	}
	p.log.WithField("item", item).Infof("downloading for %s: %s", p.mounts, text)
}

// on takes one event.
func (p *progress) on(e worker.Event) { p.onAt(e, time.Now()) }

func (p *progress) onAt(e worker.Event, now time.Time) {
	switch {
	case e.Progress != nil:
		p.advance(*e.Progress, now)
	case e.Log != nil:
		p.relay(*e.Log)
	}
}

func (p *progress) advance(last worker.Progress, now time.Time) {
	last.Item = last.Item[:min(len(last.Item), maxItem)]
	last.Waiting = last.Waiting[:min(len(last.Waiting), maxItem)]
	last.Trouble = oneLine(last.Trouble[:min(len(last.Trouble), maxItem)])
	p.mu.Lock()
	p.running.Progress = last
	p.heard = now
	due := now.Sub(p.running.Updated) >= recordEvery
	if due {
		p.running.Updated = now
	}
	r := p.running
	p.mu.Unlock()
	if due {
		r.Limit = p.limit()
		p.keep(r)
	}
}

// keep writes the record. A node that can't hold it runs the pod all the same.
func (p *progress) keep(r observe.Running) {
	err := p.node.Write(r)
	if err == nil {
		return
	}
	p.mu.Lock()
	told := p.unkept
	p.unkept = true
	p.mu.Unlock()
	if !told {
		p.log.WithError(err).Warn("`sedna-storage ps` won't show this download")
	}
}

// relay writes what the worker has to say. It reads what strangers send, so it
// chooses neither a level that would end the shim nor how much there is.
func (p *progress) relay(l worker.Log) {
	p.mu.Lock()
	p.lines++
	n := p.lines
	p.mu.Unlock()
	switch {
	case n == maxLines:
		p.log.Warnf("the worker has written %d lines; no more of them are logged", maxLines)
	case n > maxLines:
	case l.Level == "debug":
		p.log.Debug(l.Message)
	case l.Level == "warning":
		p.log.Warn(l.Message)
	case l.Level == "error":
		p.log.Error(l.Message)
	default:
		p.log.Info(l.Message)
	}
}

// finish ends the lines and removes the record. It may be called again.
func (p *progress) finish() {
	p.mu.Lock()
	again := p.finished
	p.finished = true
	id := p.running.Sandbox
	p.mu.Unlock()
	if again {
		return
	}
	close(p.stop)
	p.wg.Wait()
	if err := p.node.Remove(id); err != nil {
		p.log.WithError(err).Warn("remove the record of a download")
	}
}

// far says how far the download is.
func (p *progress) far() string {
	p.mu.Lock()
	l := p.running.Progress
	p.mu.Unlock()
	text := howFar(l)
	if l.Waiting != "" {
		return text + ", waiting for " + l.Waiting
	}
	if limit := p.limit(); limit != nil {
		text += ", " + limit.String()
	}
	if l.Trouble != "" {
		text += " (" + l.Trouble + ")"
	}
	return text
}

// howFar writes a progress for people.
func howFar(l worker.Progress) string {
	text := size(l.Bytes)
	if l.Total > 0 {
		text += fmt.Sprintf(" of %s (%d %%)", size(l.Total), int(float64(l.Bytes)/float64(l.Total)*100))
	}
	return text + fmt.Sprintf(" in %d files at %s/s", l.Files, size(int64(l.Rate)))
}

// done notes the report of a finished request, and sums it up.
func (p *progress) done(r *worker.Report) string {
	p.mu.Lock()
	p.report = r
	p.mu.Unlock()
	return fmt.Sprintf("%s in %d files, %s of it fetched in %s", size(r.Bytes), r.Files, size(r.Fetched), r.Duration.Round(time.Millisecond))
}

// took notes what the worker took of the node.
func (p *progress) took(u worker.Usage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.usage = u
}

// size writes bytes for people.
func size(n int64) string { return humanize.IBytes(uint64(max(n, 0))) }
