// SPDX-License-Identifier: Apache-2.0

package web

import (
	"net/http"
	"sync"
)

// Gate holds a download back in the middle, so that a test can do something
// while it is going on, without a clock.
type Gate struct {
	// Reached is closed once a client waits at the gate.
	Reached chan struct{}

	reached sync.Once
	open    chan struct{}
	opened  sync.Once

	mu    sync.Mutex
	after int           // bytes that may pass; guarded by mu
	sent  int           // over all requests; guarded by mu
	more  chan struct{} // closed when after grows; guarded by mu
}

// Gated serves content like File, but stops after some bytes of it, counted
// over all requests, until the gate is opened.
func (s *Server) Gated(path string, content []byte, after int) (string, *Gate) {
	gate := &Gate{Reached: make(chan struct{}), after: after, open: make(chan struct{}), more: make(chan struct{})}
	inner := file(content)
	url := s.Handle(path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead {
			inner.ServeHTTP(w, r)
			return
		}
		inner.ServeHTTP(&gatedWriter{ResponseWriter: w, gate: gate, request: r}, r)
	}))
	return url, gate
}

// Open lets everything pass from now on.
func (g *Gate) Open() { g.opened.Do(func() { close(g.open) }) }

// Let lets more bytes pass, and then holds back again.
func (g *Gate) Let(bytes int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.after += bytes
	close(g.more)
	g.more = make(chan struct{})
}

// Sent is how many bytes have passed.
func (g *Gate) Sent() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.sent
}

// pass waits until n more bytes may go out; false when the client has left.
func (g *Gate) pass(r *http.Request, n int) bool {
	for {
		g.mu.Lock()
		free, more := g.sent+n <= g.after || g.isOpen(), g.more
		if free {
			g.sent += n
		}
		g.mu.Unlock()
		if free {
			return true
		}
		g.reached.Do(func() { close(g.Reached) })
		select {
		case <-g.open:
		case <-more:
		case <-r.Context().Done():
			return false
		}
	}
}

func (g *Gate) isOpen() bool {
	select {
	case <-g.open:
		return true
	default:
		return false
	}
}

type gatedWriter struct {
	http.ResponseWriter
	gate    *Gate
	request *http.Request
}

// Write hides io.ReaderFrom: every byte goes through the gate.
func (w *gatedWriter) Write(p []byte) (int, error) {
	if !w.gate.pass(w.request, len(p)) {
		return 0, w.request.Context().Err()
	}
	n, err := w.ResponseWriter.Write(p)
	if flusher, ok := w.ResponseWriter.(http.Flusher); ok {
		flusher.Flush()
	}
	return n, err
}
