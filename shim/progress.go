// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"fmt"
	"sync"
	"time"

	"github.com/containerd/log"
	"github.com/dustin/go-humanize"
	"github.com/sirupsen/logrus"

	"github.com/sedna-io/containerd-shim-sedna/storage/worker"
)

// progressEvery is how often a running download gets a line in the log.
const progressEvery = 10 * time.Second

// progress follows the events of one worker.
type progress struct {
	log     *log.Entry
	running *running

	mu     sync.Mutex
	last   worker.Progress // guarded by mu
	logged time.Time       // guarded by mu
}

func newProgress(logger *log.Entry, r *running) *progress {
	return &progress{log: logger, running: r, logged: time.Now()}
}

// on takes one event.
func (p *progress) on(e worker.Event) {
	switch {
	case e.Progress != nil:
		p.mu.Lock()
		p.last = *e.Progress
		due := time.Since(p.logged) >= progressEvery
		if due {
			p.logged = time.Now()
		}
		p.mu.Unlock()
		p.running.update(*e.Progress)
		if due {
			p.log.WithField("item", e.Progress.Item).Infof("downloading: %s", p.far())
		}
	case e.Log != nil:
		level, err := logrus.ParseLevel(e.Log.Level)
		if err != nil {
			level = logrus.InfoLevel
		}
		p.log.Log(level, e.Log.Message)
	}
}

// lastly returns what the worker told last.
func (p *progress) lastly() *worker.Progress {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := p.last
	return &last
}

// far says how far the download is.
func (p *progress) far() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.last
	text := size(l.Bytes)
	if l.Total > 0 {
		text += fmt.Sprintf(" of %s (%d %%)", size(l.Total), l.Bytes*100/l.Total)
	}
	text += fmt.Sprintf(" in %d files at %s/s", l.Files, size(int64(l.Rate)))
	if l.Waiting != "" {
		text += ", waiting for " + l.Waiting
	}
	return text
}

// done sums up a finished request.
func (p *progress) done(r *worker.Report) string {
	return fmt.Sprintf("%s in %d files, %s of it fetched in %s", size(r.Bytes), r.Files, size(r.Fetched), r.Duration.Round(time.Millisecond))
}

// size writes bytes for people.
func size(n int64) string { return humanize.IBytes(uint64(max(n, 0))) }
