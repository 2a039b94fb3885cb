// SPDX-License-Identifier: Apache-2.0

package storagetest

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Fault answers a request badly, with the help of the server that would have
// answered it well.
type Fault func(w http.ResponseWriter, r *http.Request, good http.Handler)

// Choose picks the fault for a request that is the nth of its path, from 1; nil
// is none. A server calls it for one request at a time.
type Choose func(n int, r *http.Request) Fault

// Always picks a fault every time.
func Always(f Fault) Choose { return func(int, *http.Request) Fault { return f } }

// First picks a fault for the first n requests of each path.
func First(n int, f Fault) Choose {
	return func(i int, _ *http.Request) Fault {
		if i <= n {
			return f
		}
		return nil
	}
}

// After lets the first n requests of each path pass.
func After(n int, f Fault) Choose {
	return func(i int, _ *http.Request) Fault {
		if i > n {
			return f
		}
		return nil
	}
}

// Server is a good server with faults before it.
type Server struct {
	*httptest.Server
	Requests atomic.Int64
	// Served counts the bytes of bodies.
	Served atomic.Int64

	good   http.Handler
	mu     sync.Mutex
	choose Choose              // guarded by mu, which is held while it is called
	seen   map[string]int      // requests by path; guarded by mu
	hook   func(*http.Request) // likewise
	served atomic.Pointer[func(int64)]
	pace   atomic.Int64
	held   atomic.Int64 // offset, 0 for none
}

// Serve starts a server on loopback that the test's end stops.
func Serve(t testing.TB, good http.Handler, choose Choose) *Server {
	t.Helper()
	s := &Server{good: good, choose: choose, seen: map[string]int{}}
	s.Server = httptest.NewUnstartedServer(s)
	s.Config.ErrorLog = quiet
	s.Start()
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// ServeTLS is Serve with a certificate of httptest's.
func ServeTLS(t testing.TB, good http.Handler, choose Choose) *Server {
	t.Helper()
	s := &Server{good: good, choose: choose, seen: map[string]int{}}
	s.Server = httptest.NewUnstartedServer(s)
	s.Config.ErrorLog = quiet
	s.StartTLS()
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// ServeHTTP2 is ServeTLS for a server that speaks HTTP/2 and nothing else.
func ServeHTTP2(t testing.TB, good http.Handler) *Server {
	t.Helper()
	s := &Server{good: good, seen: map[string]int{}}
	s.Server = httptest.NewUnstartedServer(s)
	s.Config.ErrorLog = quiet
	s.EnableHTTP2 = true
	s.TLS = &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		c := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: s.TLS.Certificates, NextProtos: []string{"h2"}}
		if !slices.Contains(hello.SupportedProtos, "h2") {
			c.NextProtos = []string{"none"} // with "h2" package tls would let HTTP/1.1 pass
		}
		return c, nil
	}}
	s.StartTLS()
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// Set changes the faults, and counts paths anew.
func (s *Server) Set(choose Choose) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.choose = choose
	clear(s.seen)
}

// Watch calls f with every request before it is answered, one at a time.
func (s *Server) Watch(f func(*http.Request)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hook = f
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.Requests.Add(1)
	s.mu.Lock()
	s.seen[r.URL.Path]++
	if s.hook != nil {
		s.hook(r)
	}
	var f Fault
	if s.choose != nil {
		f = s.choose(s.seen[r.URL.Path], r)
	}
	s.mu.Unlock()
	counted := &countingWriter{ResponseWriter: w, server: s, request: r, at: firstByte(r)}
	if f != nil {
		f(counted, r, s.good)
		return
	}
	s.good.ServeHTTP(counted, r)
}

// OnServed calls f with the number of bytes served whenever it grows; nil ends
// that.
func (s *Server) OnServed(f func(total int64)) {
	if f == nil {
		s.served.Store(nil)
		return
	}
	s.served.Store(&f)
}

// Pace has bodies written in pieces of n bytes, each when the one before has
// had time to be read, so that what was served has mostly arrived. 0 ends that.
func (s *Server) Pace(n int64) { s.pace.Store(n) }

// Hold has no byte of a file served from the offset on: who asks for one waits.
// 0 ends that for requests to come.
func (s *Server) Hold(offset int64) { s.held.Store(offset) }

type countingWriter struct {
	http.ResponseWriter
	server  *Server
	request *http.Request
	at      int64 // offset of the next byte in the file
}

// firstByte is where the range that is asked for begins.
func firstByte(r *http.Request) int64 {
	first, _, _ := strings.Cut(strings.TrimPrefix(r.Header.Get("Range"), "bytes="), "-")
	n, _ := strconv.ParseInt(first, 10, 64) // 0 without a range
	return n
}

func (c *countingWriter) Write(p []byte) (int, error) {
	total := 0
	for len(p) > 0 {
		piece := p
		if n := c.server.pace.Load(); n > 0 {
			piece = p[:min(int64(len(p)), n)]
			time.Sleep(time.Millisecond) // a stream's speed, nothing waits for it
		}
		if held := c.server.held.Load(); held > 0 {
			if piece = piece[:max(min(int64(len(piece)), held-c.at), 0)]; len(piece) == 0 {
				flush(c.ResponseWriter)
				hang(c.request)
				return total, c.request.Context().Err()
			}
		}
		n, err := c.ResponseWriter.Write(piece)
		total += n
		c.at += int64(n)
		p = p[n:]
		served := c.server.Served.Add(int64(n))
		if f := c.server.served.Load(); f != nil {
			(*f)(served)
		}
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

func (c *countingWriter) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// answer is what the good server would have said.
func answer(r *http.Request, good http.Handler) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	good.ServeHTTP(rec, r)
	return rec
}

func copyHead(w http.ResponseWriter, rec *httptest.ResponseRecorder) {
	for k, v := range rec.Header() {
		w.Header()[k] = v
	}
}

// hang blocks until the client gives up.
func hang(r *http.Request) { <-r.Context().Done() }

func flush(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() }

// abort ends the connection without a proper end.
func abort() { panic(http.ErrAbortHandler) }

// begin sends the good head and the first after bytes of its body.
func begin(w http.ResponseWriter, rec *httptest.ResponseRecorder, after int) (rest []byte) {
	copyHead(w, rec)
	body := rec.Body.Bytes()
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(rec.Code)
	after = min(after, len(body))
	_, _ = w.Write(body[:after])
	flush(w)
	return body[after:]
}

// Stall sends after bytes and then nothing.
func Stall(after int) Fault {
	return func(w http.ResponseWriter, r *http.Request, good http.Handler) {
		if rest := begin(w, answer(r, good), after); len(rest) > 0 {
			hang(r)
		}
	}
}

// Silent takes a request and never answers.
func Silent() Fault { return func(_ http.ResponseWriter, r *http.Request, _ http.Handler) { hang(r) } }

// Drip sends after bytes, then one at each interval.
func Drip(after int, every time.Duration) Fault {
	return func(w http.ResponseWriter, r *http.Request, good http.Handler) {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for _, b := range begin(w, answer(r, good), after) {
			select {
			case <-tick.C:
			case <-r.Context().Done():
				return
			}
			_, _ = w.Write([]byte{b})
			flush(w)
		}
	}
}

// Cut sends after bytes and ends the connection.
func Cut(after int) Fault {
	return func(w http.ResponseWriter, r *http.Request, good http.Handler) {
		if rest := begin(w, answer(r, good), after); len(rest) > 0 {
			abort()
		}
	}
}

// unsized sends the head of an answer without a length, and returns its body.
func unsized(w http.ResponseWriter, r *http.Request, good http.Handler) []byte {
	rec := answer(r, good)
	copyHead(w, rec)
	w.Header().Del("Content-Length")
	w.WriteHeader(rec.Code)
	return rec.Body.Bytes()
}

// Chunked sends the body without saying its length.
func Chunked() Fault { return Longer(0) }

// Longer sends more bytes than there are, without saying how many.
func Longer(more int) Fault {
	return func(w http.ResponseWriter, r *http.Request, good http.Handler) {
		body := unsized(w, withoutRange(r), good)
		_, _ = w.Write(body[:len(body)/2])
		flush(w)
		_, _ = w.Write(body[len(body)/2:])
		_, _ = w.Write(make([]byte, more))
	}
}

// ChunkedCut is Chunked without its end.
func ChunkedCut(after int) Fault {
	return func(w http.ResponseWriter, r *http.Request, good http.Handler) {
		body := unsized(w, withoutRange(r), good)
		_, _ = w.Write(body[:min(after, len(body))])
		flush(w)
		abort()
	}
}

// ShortPart sends only so many bytes of a part, and ends it properly.
func ShortPart(bytes int) Fault {
	return func(w http.ResponseWriter, r *http.Request, good http.Handler) {
		body := unsized(w, r, good)
		_, _ = w.Write(body[:min(bytes, len(body))])
		flush(w)
	}
}

// Old answers in HTTP/1.0: the end of the connection is that of the file,
// which comes after that many bytes.
func Old(after int) Fault {
	return func(w http.ResponseWriter, r *http.Request, good http.Handler) {
		rec := answer(withoutRange(r), good)
		raw(w, "HTTP/1.0 200 OK\r\nContent-Type: application/octet-stream\r\n\r\n", rec.Body.Bytes()[:min(after, rec.Body.Len())])
	}
}

// WrongLength says that the body is longer by more than it is, and closes.
func WrongLength(more int) Fault {
	return func(w http.ResponseWriter, r *http.Request, good http.Handler) {
		rec := answer(withoutRange(r), good)
		raw(w, fmt.Sprintf("HTTP/1.1 200 OK\r\nETag: %s\r\nContent-Length: %d\r\n\r\n", rec.Header().Get("ETag"), rec.Body.Len()+more), rec.Body.Bytes())
	}
}

func raw(w http.ResponseWriter, head string, body []byte) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		abort()
	}
	defer conn.Close()
	_, _ = conn.Write([]byte(head))
	_, _ = conn.Write(body)
}

func withoutRange(r *http.Request) *http.Request {
	r = r.Clone(r.Context())
	r.Header.Del("Range")
	r.Header.Del("If-Range")
	return r
}

// IgnoreRange answers 200 with the whole file.
func IgnoreRange() Fault {
	return func(w http.ResponseWriter, r *http.Request, good http.Handler) {
		good.ServeHTTP(w, withoutRange(r))
	}
}

// Shifted answers 206 with another part than asked for, and says so.
func Shifted(by int64) Fault {
	return func(w http.ResponseWriter, r *http.Request, good http.Handler) {
		span := strings.TrimPrefix(r.Header.Get("Range"), "bytes=")
		first, last, _ := strings.Cut(span, "-")
		from, _ := strconv.ParseInt(first, 10, 64)
		moved := r.Clone(r.Context())
		moved.Header.Set("Range", fmt.Sprintf("bytes=%d-%s", from+by, last))
		good.ServeHTTP(w, moved)
	}
}

// RangedOK answers 200 and a Content-Range with a part of the file.
func RangedOK() Fault {
	return func(w http.ResponseWriter, r *http.Request, good http.Handler) {
		rec := answer(r, good)
		copyHead(w, rec)
		w.Header().Set("Content-Length", strconv.Itoa(rec.Body.Len()))
		w.WriteHeader(http.StatusOK)
		_, _ = w.Write(rec.Body.Bytes())
	}
}

// Unlabelled answers 206 without a Content-Range.
func Unlabelled() Fault {
	return func(w http.ResponseWriter, r *http.Request, good http.Handler) {
		rec := answer(r, good)
		copyHead(w, rec)
		w.Header().Del("Content-Range")
		w.WriteHeader(rec.Code)
		_, _ = w.Write(rec.Body.Bytes())
	}
}

// ETag answers with another ETag, and ignores conditions.
func ETag(etag string) Fault {
	return func(w http.ResponseWriter, r *http.Request, good http.Handler) {
		r = r.Clone(r.Context())
		r.Header.Del("If-Range")
		r.Header.Del("If-Match")
		rec := answer(r, good)
		copyHead(w, rec)
		w.Header().Set("ETag", etag)
		w.WriteHeader(rec.Code)
		_, _ = w.Write(rec.Body.Bytes())
	}
}

// Encoded labels the body with a Content-Encoding.
func Encoded(encoding string) Fault {
	return func(w http.ResponseWriter, r *http.Request, good http.Handler) {
		w.Header().Set("Content-Encoding", encoding)
		good.ServeHTTP(w, r)
	}
}

// Redirect sends the client elsewhere.
func Redirect(status int, to string) Fault {
	return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		w.Header().Set("Location", to)
		w.WriteHeader(status)
	}
}

// Status answers with a status, and Retry-After if it isn't "".
func Status(code int, retryAfter string) Fault {
	return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		if retryAfter != "" {
			w.Header().Set("Retry-After", retryAfter)
		}
		http.Error(w, "refused", code)
	}
}

// Page answers 200 with a web page, as a captive portal does.
func Page() Fault {
	return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write([]byte("<!DOCTYPE html><html><body>Please log in</body></html>"))
	}
}
