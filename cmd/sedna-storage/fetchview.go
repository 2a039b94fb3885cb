// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/dustin/go-humanize"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/sys/unix"

	"github.com/sedna-io/containerd-shim-sedna/storage"
	"github.com/sedna-io/containerd-shim-sedna/storage/worker"
)

// view shows a fetch while it goes on.
type view interface {
	event(worker.Event)
	options() []storage.Option
	// sofar says how far it got, for an error; "" if it's not known.
	sofar() string
	close()
}

func newView(asJSON bool, out, status io.Writer) view {
	switch {
	case asJSON:
		return &jsonView{out: json.NewEncoder(out)}
	case isTerminal(status):
		return newBars(status)
	}
	return &lines{out: status, began: time.Now()}
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// jsonView writes every event.
type jsonView struct {
	out *json.Encoder
	latest
}

func (v *jsonView) event(e worker.Event) {
	v.note(e)
	_ = v.out.Encode(e) // a reader that went away is told by nothing else
}
func (v *jsonView) options() []storage.Option { return nil }
func (v *jsonView) close()                    {}

// latest remembers the last progress.
type latest struct {
	p atomic.Pointer[worker.Progress]
}

func (l *latest) note(e worker.Event) {
	if e.Progress != nil {
		l.p.Store(e.Progress)
	}
}

func (l *latest) sofar() string {
	p := l.p.Load()
	if p == nil {
		return ""
	}
	if p.Total > 0 {
		return fmt.Sprintf(" with %s of %s there", size(p.Bytes), size(p.Total))
	}
	return fmt.Sprintf(" with %s there", size(p.Bytes))
}

// every is how often a line is written where no terminal is.
const every = 5 * time.Second

// lines writes one every few seconds.
type lines struct {
	latest
	out   io.Writer
	began time.Time
	shown time.Duration
}

func (v *lines) options() []storage.Option { return nil }
func (v *lines) close()                    {}

func (v *lines) event(e worker.Event) {
	v.note(e)
	if e.Progress == nil || time.Since(v.began)-v.shown < every {
		return
	}
	v.shown = time.Since(v.began)
	fmt.Fprintln(v.out, line(*e.Progress))
}

func line(p worker.Progress) string {
	text := fmt.Sprintf("%d files, %s", p.Files, size(p.Bytes))
	if p.Total > 0 {
		text += fmt.Sprintf(" of %s", size(p.Total))
	}
	text += fmt.Sprintf(", %s/s", size(int64(p.Rate)))
	if left := p.Total - p.Bytes; left > 0 && p.Rate > 1 {
		text += fmt.Sprintf(", %s left", time.Duration(float64(left)/p.Rate*float64(time.Second)).Round(time.Second))
	}
	return text
}

func size(n int64) string { return humanize.IBytes(uint64(max(n, 0))) }

const (
	maxBars = 8
	frame   = 150 * time.Millisecond
	// nameWidth is what a file's name may take of a line.
	nameWidth = 32
)

// bars shows one for each file under way and one for the whole.
type bars struct {
	latest
	all   *mpb.Progress
	total *mpb.Bar
	files map[string]*mpb.Bar // by path; only event's goroutine uses it
}

func newBars(out io.Writer) *bars {
	v := &bars{all: mpb.New(mpb.WithOutput(out), mpb.WithWidth(72), mpb.WithRefreshRate(frame)), files: map[string]*mpb.Bar{}}
	v.total = v.all.New(0, mpb.BarStyle().Rbound("|"), mpb.BarPriority(1<<30),
		mpb.PrependDecorators(decor.Name("total", decor.WC{W: nameWidth, C: decor.DindentRight})),
		mpb.AppendDecorators(
			decor.CountersKibiByte("% .1f / % .1f", decor.WCSyncSpace),
			decor.Any(func(decor.Statistics) string { return v.speed() }, decor.WCSyncSpace),
		))
	return v
}

// speed is the rate and what is left at it.
func (v *bars) speed() string {
	p := v.p.Load()
	if p == nil || p.Rate < 1 {
		return ""
	}
	text := size(int64(p.Rate)) + "/s"
	if left := p.Total - p.Bytes; left > 0 {
		text += " " + time.Duration(float64(left)/p.Rate*float64(time.Second)).Round(time.Second).String()
	}
	return text
}

func (v *bars) options() []storage.Option {
	return []storage.Option{storage.Files(frame, v.show)}
}

func (v *bars) event(e worker.Event) {
	v.note(e)
	if p := e.Progress; p != nil {
		v.total.SetTotal(max(p.Total, p.Bytes+1), false)
		v.total.SetCurrent(p.Bytes)
	}
}

// show brings the bars in line with the files under way.
func (v *bars) show(open []storage.FileProgress) {
	there := map[string]bool{}
	for _, f := range open {
		there[f.Path] = true
		bar := v.files[f.Path]
		if bar == nil {
			if len(v.files) >= maxBars {
				continue
			}
			bar = v.add(f)
		}
		bar.SetTotal(max(f.Total, f.Bytes+1), false)
		bar.SetCurrent(f.Bytes)
	}
	for p, bar := range v.files {
		if !there[p] {
			bar.Abort(true)
			delete(v.files, p)
		}
	}
}

func (v *bars) add(f storage.FileProgress) *mpb.Bar {
	name := path.Base(f.Path)
	if r := []rune(name); len(r) > nameWidth {
		name = "..." + string(r[len(r)-nameWidth+3:])
	}
	bar := v.all.New(f.Total, mpb.BarStyle().Rbound("|"), mpb.BarRemoveOnComplete(),
		mpb.PrependDecorators(decor.Name(printable(name), decor.WC{W: nameWidth, C: decor.DindentRight})),
		mpb.AppendDecorators(decor.CountersKibiByte("% .1f / % .1f", decor.WCSyncSpace)))
	v.files[f.Path] = bar
	return bar
}

// printable keeps a file's name from writing to the terminal what it likes: no
// control characters, and none that turn the direction of the text.
func printable(s string) string {
	out := []rune(s)
	for i, r := range out {
		if !unicode.IsPrint(r) {
			out[i] = '?'
		}
	}
	return string(out)
}

func (v *bars) close() {
	for _, bar := range v.files {
		bar.Abort(true)
	}
	v.total.Abort(true)
	v.all.Wait()
}

// summary is the last line of a fetch that worked.
func summary(r *worker.Report) string {
	text := fmt.Sprintf("%d files, %s", r.Files, size(r.Bytes))
	if r.Fetched != r.Bytes {
		text += fmt.Sprintf(" (%s fetched)", size(r.Fetched))
	}
	text += fmt.Sprintf(" in %s", r.Duration.Round(time.Millisecond))
	if s := r.Duration.Seconds(); s > 0 && r.Fetched > 0 {
		text += fmt.Sprintf(", %s/s", size(int64(float64(r.Fetched)/s)))
	}
	return text
}
