// SPDX-License-Identifier: Apache-2.0

package web

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// Pace is the speed of all downloads of a file together.
type Pace struct {
	rate int64 // bytes per second, 0 for as fast as can be

	mu     sync.Mutex
	free   time.Time // when what was sent is paid for; guarded by mu
	served int64     // guarded by mu
}

// Paced serves content like File, but no faster than rate bytes per second over
// all requests, and counts what it sends. A rate of 0 only counts.
func (s *Server) Paced(path string, content []byte, rate int64) (string, *Pace) {
	pace := &Pace{rate: rate}
	inner := file(content)
	return s.Handle(path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if conn, ok := r.Context().Value(connKey{}).(*net.TCPConn); ok {
			_ = conn.SetWriteBuffer(sendBuffer)
		}
		inner.ServeHTTP(&pacedWriter{ResponseWriter: w, pace: pace, request: r}, r)
	})), pace
}

// sendBuffer bounds what counts as sent and still waits on this side: the
// kernel's own megabytes would hide what the client's side does.
const sendBuffer = 64 << 10

// Served is how many bytes of bodies were sent.
func (p *Pace) Served() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.served
}

func (p *Pace) wait(r *http.Request, n int) {
	if p.rate <= 0 {
		return
	}
	p.mu.Lock()
	if now := time.Now(); p.free.Before(now) {
		p.free = now
	}
	p.free = p.free.Add(time.Duration(int64(n) * int64(time.Second) / p.rate))
	until := p.free
	p.mu.Unlock()
	select {
	case <-time.After(time.Until(until)):
	case <-r.Context().Done():
	}
}

type pacedWriter struct {
	http.ResponseWriter
	pace    *Pace
	request *http.Request
}

// Write hides io.ReaderFrom: every byte is counted.
func (w *pacedWriter) Write(p []byte) (int, error) {
	w.pace.wait(w.request, len(p))
	if err := w.request.Context().Err(); err != nil {
		return 0, err
	}
	n, err := w.ResponseWriter.Write(p)
	if flusher, ok := w.ResponseWriter.(http.Flusher); ok {
		flusher.Flush()
	}
	w.pace.mu.Lock()
	w.pace.served += int64(n)
	w.pace.mu.Unlock()
	return n, err
}
