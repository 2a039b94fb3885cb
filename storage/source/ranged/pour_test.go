// SPDX-License-Identifier: Apache-2.0

package ranged

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sedna-io/containerd-shim-sedna/storage/source"
	"github.com/sedna-io/containerd-shim-sedna/storage/worker"
)

// opened is a reply of a server with its body's bytes to come.
func opened(ctx context.Context, t *testing.T, server *httptest.Server) *source.Reply {
	t.Helper()
	n, err := NewNetwork(worker.Network{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	c, err := n.NewClient(nil, true)
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(server.URL + "/f.bin")
	if err != nil {
		t.Fatal(err)
	}
	r, err := c.Open(ctx, u, "If-Range", source.Object{Size: source.Unknown}, 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Body.Close() })
	return r
}

// pourAll reads a body to its end and returns what came of it in order, and how
// much of that went straight into the file.
func pourAll(t *testing.T, r *source.Reply, f *os.File) (data []byte, poured int, err error) {
	t.Helper()
	buf := make([]byte, 256<<10)
	for {
		n, direct, err := r.Body.(source.Pourer).Pour(f, int64(len(data)), buf)
		got := buf[:n]
		if direct {
			poured += n
			got = make([]byte, n)
			if _, failed := f.ReadAt(got, int64(len(data))); failed != nil {
				t.Fatal(failed)
			}
		}
		data = append(data, got...)
		if err != nil {
			return data, poured, err
		}
	}
}

func target(t *testing.T, flags int) *os.File {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(t.TempDir(), "f"), os.O_RDWR|os.O_CREATE|flags, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func serve(chunked bool, data []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if chunked {
			w.(http.Flusher).Flush()
			_, _ = w.Write(data)
			return
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
	}
}

func TestBytesOfPlainHTTPGoStraightIntoTheFile(t *testing.T) {
	data := bytes.Repeat([]byte("0123456789abcdef"), 1<<18)
	for _, tt := range []struct {
		name    string
		server  func(http.Handler) *httptest.Server
		chunked bool
		flags   int
		poured  bool
	}{
		{"plain", httptest.NewServer, false, 0, true},
		{"TLS", httptest.NewTLSServer, false, 0, false},
		{"chunks", httptest.NewServer, true, 0, false},
		// splice(2) refuses it, as it does some file systems.
		{"a file that the kernel can't pour into", httptest.NewServer, false, os.O_APPEND, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := tt.server(serve(tt.chunked, data))
			defer s.Close()
			got, poured, err := pourAll(t, opened(t.Context(), t, s), target(t, tt.flags))
			if !errors.Is(err, io.EOF) || !bytes.Equal(got, data) {
				t.Fatalf("%d bytes came, and %v; want %d", len(got), err, len(data))
			}
			// What came along with the headers is copied.
			if (poured >= len(data)-readBuffer) != tt.poured || !tt.poured && poured > 0 {
				t.Errorf("%d bytes were poured", poured)
			}
		})
	}
}

func TestAConnectionThatPoursIsUsedAgain(t *testing.T) {
	data := bytes.Repeat([]byte("x"), 1<<20)
	connections := map[string]bool{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		connections[r.RemoteAddr] = true
		serve(false, data)(w, r)
	}))
	defer s.Close()
	n, err := NewNetwork(worker.Network{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	c, err := n.NewClient(nil, false)
	if err != nil {
		t.Fatal(err)
	}
	u, _ := url.Parse(s.URL + "/f.bin")
	f := target(t, 0)
	for range 5 {
		r, err := c.Open(t.Context(), u, "If-Range", source.Object{Size: source.Unknown}, 0, -1)
		if err != nil {
			t.Fatal(err)
		}
		got, poured, err := pourAll(t, r, f)
		r.Body.Close()
		if !errors.Is(err, io.EOF) || !bytes.Equal(got, data) || poured == 0 {
			t.Fatalf("%d bytes came, %d of them poured, and %v", len(got), poured, err)
		}
	}
	if len(connections) != 1 {
		t.Errorf("%d connections were used", len(connections))
	}
}

func TestACutAndACancelEndPouring(t *testing.T) {
	data := make([]byte, 1<<20)
	why := errors.New("enough")
	for _, cut := range []bool{true, false} {
		ctx, cancel := context.WithCancelCause(t.Context())
		open := make(chan struct{})
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "2000000")
			_, _ = w.Write(data)
			w.(http.Flusher).Flush()
			if cut {
				panic(http.ErrAbortHandler)
			}
			<-open
			cancel(why)
			<-r.Context().Done()
		}))
		r := opened(ctx, t, s)
		close(open)
		_, _, err := pourAll(t, r, target(t, 0))
		if cut && !strings.Contains(err.Error(), "ended in the middle") || !cut && !errors.Is(err, why) {
			t.Errorf("cut %v: error is %v", cut, err)
		}
		s.Close()
		cancel(nil)
	}
}

func TestWhatFailsInTheFileIsToldAsItIs(t *testing.T) {
	s := httptest.NewServer(serve(false, make([]byte, 8<<20)))
	defer s.Close()
	readOnly, err := os.Open(target(t, 0).Name())
	if err != nil {
		t.Fatal(err)
	}
	defer readOnly.Close()
	_, _, err = pourAll(t, opened(t.Context(), t, s), readOnly)
	if err == nil || !strings.Contains(err.Error(), "write a partial file: bad file descriptor") {
		t.Errorf("error is %v", err)
	}
}
