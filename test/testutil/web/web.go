// SPDX-License-Identifier: Apache-2.0

// Package web is an HTTP server for tests: it serves what a test gives it, and
// can stop in the middle of it.
package web

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Server serves files at an address.
type Server struct {
	base     string
	listener net.Listener
	server   *http.Server

	mu       sync.Mutex
	routes   map[string]http.Handler // by path, "" for all others; guarded by mu
	requests []Request               // guarded by mu
}

// Request is what a client asked for.
type Request struct {
	Method, Path, Query string
	Header              http.Header
	From                string // address of the client, without its port
}

// Start serves plain HTTP at an address, on a port of the server's choice if
// the address has none.
func Start(address string) (*Server, error) {
	listener, err := listen(address)
	if err != nil {
		return nil, err
	}
	s := newServer(listener, "http")
	go func() { _ = s.server.Serve(listener) }()
	return s, nil
}

func listen(address string) (net.Listener, error) {
	if _, _, err := net.SplitHostPort(address); err != nil {
		address = net.JoinHostPort(address, "0")
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("start web server: %w", err)
	}
	return listener, nil
}

func newServer(listener net.Listener, scheme string) *Server {
	s := &Server{listener: listener, base: scheme + "://" + listener.Addr().String(), routes: map[string]http.Handler{}}
	s.server = &http.Server{
		Handler: http.HandlerFunc(s.serve), ReadHeaderTimeout: time.Minute,
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, conn)
		},
	}
	return s
}

// connKey finds a request's connection in its context.
type connKey struct{}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	s.mu.Lock()
	s.requests = append(s.requests, Request{r.Method, r.URL.Path, r.URL.RawQuery, r.Header.Clone(), host})
	route, ok := s.routes[r.URL.Path]
	if !ok {
		route, ok = s.routes[""]
	}
	s.mu.Unlock()
	if !ok {
		http.NotFound(w, r)
		return
	}
	route.ServeHTTP(w, r)
}

// Handle answers requests for a path, or for all that have no handler if it is
// "", and returns its URL.
func (s *Server) Handle(path string, handler http.Handler) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.routes[path] = handler
	return s.base + path
}

// File serves content with ranges and an ETag, and returns its URL.
func (s *Server) File(path string, content []byte) string { return s.Handle(path, file(content)) }

func file(content []byte) http.Handler {
	etag := `"` + Sum(content)[:16] + `"`
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", etag)
		w.Header().Set("Content-Type", "application/octet-stream")
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
	})
}

// Status answers requests for a path with an error, and returns its URL.
func (s *Server) Status(path string, code int) string {
	return s.Handle(path, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, http.StatusText(code), code)
	}))
}

// Requests are those for a path so far.
func (s *Server) Requests(path string) []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []Request
	for _, request := range s.requests {
		if request.Path == path {
			found = append(found, request)
		}
	}
	return found
}

// All are all requests so far.
func (s *Server) All() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Redirect answers requests for a path with a redirect, and returns its URL.
func (s *Server) Redirect(path, to string) string {
	return s.Handle(path, http.RedirectHandler(to, http.StatusFound))
}

// Port is the server's port.
func (s *Server) Port() string {
	_, port, _ := net.SplitHostPort(s.Host())
	return port
}

// Host is the server's host and port.
func (s *Server) Host() string { return s.listener.Addr().String() }

// Close ends the server and all its connections.
func (s *Server) Close() error { return s.server.Close() }

// Bytes are pseudo-random: the same for the same size.
func Bytes(size int) []byte {
	content := make([]byte, size)
	seed := sha256.Sum256([]byte(fmt.Sprint(size)))
	_, _ = rand.NewChaCha8(seed).Read(content) // never fails
	return content
}

// Sum is the sha256 of content in hex.
func Sum(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}
