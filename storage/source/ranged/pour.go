// SPDX-License-Identifier: Apache-2.0

package ranged

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sedna-io/containerd-shim-sedna/storage/source"
)

// conn is a connection whose incoming bytes the kernel can move into a file, so
// that they don't pass through this process: two copies less. Package net/http
// has no door for that. But it hands a large buffer for a body of known length
// over plain HTTP/1.1 down to Read as it came; so a buffer that Read recognises
// stands for a place in a file. Where something stands in between (TLS, chunks,
// HTTP/2, bytes that came with the headers), Read never sees that buffer, and
// data goes the usual way.
type conn struct {
	net.Conn
	raw  syscall.RawConn
	next atomic.Pointer[pouring]
}

type dial = func(ctx context.Context, network, address string) (net.Conn, error)

// dialWith makes such connections of those that d dials.
func dialWith(d dial) dial {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := d(ctx, network, address)
		if err != nil {
			return nil, err
		}
		tcp, ok := c.(*net.TCPConn)
		if !ok {
			return c, nil
		}
		raw, err := tcp.SyscallConn()
		if err != nil {
			return c, nil //nolint:nilerr // it's as good, only slower
		}
		return &conn{Conn: c, raw: raw}, nil
	}
}

// Read implements io.Reader.
func (c *conn) Read(p []byte) (int, error) {
	if t := c.next.Load(); t != nil && len(p) > 0 && &p[0] == t.first {
		return t.read(c, p)
	}
	return c.Conn.Read(p)
}

// pouring is where a body's bytes go. Only first may be looked at by others than
// the body's reader: the transport reads on once the body has ended.
type pouring struct {
	first  *byte // of the buffer that stands for the file
	pipe   *pipe
	file   *os.File
	off    int64
	poured bool  // the last read's bytes are in the file
	failed error // writing them did
	never  bool  // the kernel won't do it
}

// read moves up to len(p) bytes from the connection to the file.
func (t *pouring) read(c *conn, p []byte) (int, error) {
	if t.never {
		return c.Conn.Read(p)
	}
	n, err := t.pipe.take(c.raw, len(p))
	switch {
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EPERM):
		t.never = true
		return c.Conn.Read(p)
	case err != nil:
		return 0, err
	}
	var put int
	put, err = t.pipe.give(t.file, t.off, n)
	if put == 0 && errors.Is(err, unix.EINVAL) { // not into this file system
		t.never = true
		return t.pipe.drain(p[:n])
	}
	t.poured = true
	if err != nil {
		t.failed = fmt.Errorf("write a partial file: %w", err)
		return put, t.failed
	}
	return put, nil
}

var _ source.Pourer = (*body)(nil)

// Pour implements source.Pourer.
func (b *body) Pour(f *os.File, off int64, buf []byte) (n int, poured bool, err error) {
	if b.conn == nil || b.to != nil && b.to.never {
		n, err = b.Read(buf)
		return n, false, err
	}
	if b.to == nil {
		p := newPipe()
		if p == nil {
			b.conn = nil
			n, err = b.Read(buf)
			return n, false, err
		}
		b.to = &pouring{first: &buf[0], pipe: p}
	}
	to := b.to
	to.file, to.off, to.poured = f, off, false
	if to.first == &buf[0] {
		b.conn.next.Store(to)
		defer b.conn.next.CompareAndSwap(to, nil)
	}
	n, err = b.Read(buf)
	if to.failed != nil {
		err = to.failed
	}
	return n, to.poured, err
}

// pourable returns the connection of a reply if it's one whose body Read could pour.
func pourable(c net.Conn, resp *http.Response) *conn {
	if resp.ContentLength < 0 || resp.ProtoMajor != 1 || resp.TLS != nil {
		return nil
	}
	own, _ := c.(*conn)
	return own
}

// traced returns a context for a request that tells which connection it took.
func traced(ctx context.Context, c *net.Conn) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) { *c = info.Conn },
	})
}

// pipe is what splice needs between two files. It's empty between reads.
type pipe struct{ r, w int }

const (
	// pipeSize has room for a buffer in pages that are half full.
	pipeSize = 1 << 20
	// leastPipe is what a read through a pipe pays from. Who has many pipes gets
	// small ones (pipe(7), pipe-user-pages-soft).
	leastPipe = 256 << 10
)

// newPipe returns nil where there's none that is large enough.
func newPipe() *pipe {
	var fds [2]int
	if unix.Pipe2(fds[:], unix.O_CLOEXEC) != nil {
		return nil
	}
	p := &pipe{fds[0], fds[1]}
	_, _ = unix.FcntlInt(uintptr(p.w), unix.F_SETPIPE_SZ, pipeSize) // what came of it is asked for next
	if size, err := unix.FcntlInt(uintptr(p.w), unix.F_GETPIPE_SZ, 0); err != nil || size < leastPipe {
		p.close()
		return nil
	}
	return p
}

func (p *pipe) close() {
	_ = unix.Close(p.r)
	_ = unix.Close(p.w)
}

// take moves what has come, up to most bytes, into the pipe. It waits for some.
func (p *pipe) take(from syscall.RawConn, most int) (n int, err error) {
	var failed error
	err = from.Read(func(fd uintptr) bool {
		n, failed = splice(int(fd), p.w, nil, most, unix.SPLICE_F_NONBLOCK)
		return !errors.Is(failed, unix.EAGAIN) // the pipe is empty: it's the connection that has nothing
	})
	switch {
	case err != nil:
		return 0, err
	case failed != nil:
		return 0, failed
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// give moves n bytes out of the pipe into f, and returns how many it could.
func (p *pipe) give(f *os.File, off int64, n int) (given int, err error) {
	for given < n {
		m, err := splice(p.r, int(f.Fd()), &off, n-given, 0)
		if err != nil {
			return given, err
		}
		if m == 0 {
			return given, io.ErrShortWrite
		}
		given += m
	}
	return given, nil
}

// drain reads the pipe empty.
func (p *pipe) drain(buf []byte) (n int, err error) {
	for n < len(buf) {
		m, err := unix.Read(p.r, buf[n:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || m == 0 {
			return n, fmt.Errorf("read a pipe: %w", errors.Join(err, io.ErrUnexpectedEOF))
		}
		n += m
	}
	return n, nil
}

// splice is splice(2), which moves pages where it can.
func splice(from, to int, off *int64, n, flags int) (int, error) {
	for {
		m, err := unix.Splice(from, nil, to, off, n, unix.SPLICE_F_MOVE|flags)
		if !errors.Is(err, unix.EINTR) {
			return int(max(m, 0)), err
		}
	}
}
