// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sedna-io/containerd-shim-sedna/internal/observe"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/node"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/web"
)

// counted serves content once all are asked for, and counts what is written.
type counted struct {
	content []byte
	served  atomic.Int64
	last    atomic.Pointer[time.Time] // when something was served last
	arrived func()                    // called by each request
	full    func()                    // called when all is served
	open    <-chan struct{}
}

func (c *counted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.arrived()
	<-c.open
	w.Header().Set("ETag", `"`+web.Sum(c.content)[:16]+`"`)
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(countingWriter{w, c}, r, "", time.Time{}, bytes.NewReader(c.content))
}

// countingWriter hides what else the writer can do, so that all bytes pass Write.
type countingWriter struct {
	http.ResponseWriter
	*counted
}

func (w countingWriter) Write(p []byte) (int, error) {
	const piece = 64 << 10
	total := 0
	for len(p) > 0 {
		n, err := w.ResponseWriter.Write(p[:min(piece, len(p))])
		if w.served.Add(int64(n)) >= int64(len(w.content)) {
			w.full()
		}
		now := time.Now()
		w.last.Store(&now)
		total += n
		if err != nil {
			return total, err
		}
		p = p[n:]
	}
	return total, nil
}

var _ io.Writer = countingWriter{}

// together downloads one file of size bytes for each of so many pods at once. The
// clock runs from when the last of them has asked until all of it is served; got
// is what each had when the first of them had all.
func together(t *testing.T, n testutil.TestNode, pods, size int, meanwhile func()) (all time.Duration, got []int64) {
	t.Helper()
	server := n.Web(t)
	open := make(chan struct{})
	var missing atomic.Int32
	missing.Store(int32(pods))
	ready := make(chan struct{})
	var files []*counted
	first := sync.OnceFunc(func() {
		for _, f := range files {
			got = append(got, f.served.Load())
		}
	})
	results := make(chan error, pods)
	for i := range pods {
		var seen atomic.Bool
		f := &counted{content: web.Bytes(size), open: open, full: first, arrived: func() {
			if !seen.Swap(true) && missing.Add(-1) == 0 {
				close(ready)
			}
		}}
		files = append(files, f)
		pod := n.NewPod(t, node.PodSpec{
			Handler: configured, Volumes: []node.Volume{downloadVolume()},
			Annotations: asks(map[string]string{"model.url": server.Handle(fmt.Sprintf("/%d", i), f)}),
		})
		go func() { results <- pod.Pod.Run(testutil.Context(t)) }()
	}
	select {
	case <-ready:
	case err := <-results:
		close(open)
		t.Fatalf("a pod was done before its download: %v", err)
	}
	began := time.Now()
	close(open)
	meanwhile()
	var errs error
	for range pods {
		errs = errors.Join(errs, <-results)
	}
	last := began
	for _, f := range files {
		if at := f.last.Load(); at != nil && at.After(last) {
			last = *at
		}
	}
	if errs != nil {
		t.Fatal(errs)
	}
	return last.Sub(began), got
}

// The bandwidth is the node's: all downloads together keep it, each gets its
// share, and one that runs alone has all of it.
func TestBandwidthIsSharedByTheNodesDownloads(t *testing.T) {
	const size, bandwidth = 24 << 20, 8 << 20
	n := testutil.Node(t)
	n.Configure(t, configured, "[storage]\nbandwidth = \"8MiB\"\n")
	since := n.LogSize()

	shared := ""
	both, got := together(t, n, 2, size, func() {
		err := node.Poll(testutil.Context(t), time.Minute, func(context.Context) error {
			for _, r := range running(t) {
				if (r.Limit == nil || *r.Limit != observe.Limit{Bandwidth: bandwidth, Downloads: 2}) {
					return fmt.Errorf("the record of %s says %v", r.Pod.Name, r.Limit)
				}
				shared = ps(t)
			}
			if shared == "" {
				return errors.New("no download is seen")
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
	t.Logf("two took %v; when one was done they had %d", both, got)
	// What a pod takes beside its download makes it slower only.
	if rate := 2 * size / both.Seconds(); rate > bandwidth*1.25 {
		t.Errorf("both together got %.1f MiB/s", rate/(1<<20))
	}
	for _, bytes := range got {
		if bytes < size/3 {
			t.Errorf("one got %d of %d bytes in the time that the other got all", bytes, size)
		}
	}
	if !strings.Contains(shared, "limited to 4.0 MiB/s of the node's 8.0 MiB/s, shared by 2 downloads") {
		t.Errorf("ps doesn't tell of the limit:\n%s", shared)
	}

	one, _ := together(t, n, 1, size, func() {})
	t.Logf("one took %v", one)
	if rate := size / one.Seconds(); rate > bandwidth*1.25 {
		t.Errorf("one alone got %.1f MiB/s", rate/(1<<20))
	} else if rate < bandwidth*0.55 { // half of it would be its share of two
		t.Errorf("one alone got only %.1f MiB/s", rate/(1<<20))
	}
	if log := n.Log(since, 1000); strings.Contains(log, "it can't be shared") {
		t.Errorf("the node keeps no account:\n%s", log)
	}
}
