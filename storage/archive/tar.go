// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"archive/tar"
	"bufio"
	"errors"
	"io"

	"github.com/containerd/errdefs"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/sedna-io/containerd-shim-sedna/storage/plan"
	"github.com/sedna-io/containerd-shim-sedna/storage/source"
)

const (
	maxWindow  = 64 << 20
	readBuffer = 128 << 10
)

// Stream unpacks a tar archive, compressed or not, and reads it to its end.
func Stream(format plan.Archive, r io.Reader, limits Limits, sink Sink) error {
	in := &counter{r: r}
	plain, closer, err := decompress(format, bufio.NewReaderSize(in, readBuffer))
	if err != nil {
		return in.judge(string(format), err)
	}
	defer closer()
	g := newGuard(sink, limits, func() int64 { return in.n })
	end := &ending{r: plain}
	if err := entries(tar.NewReader(end), g); err != nil {
		return in.judge(string(format), err)
	}
	// The compressor's own check stands behind the last entry.
	if _, err := io.Copy(io.Discard, end); err != nil {
		return in.judge(string(format), err)
	}
	if !end.marked() {
		return in.judge(string(format), errCut)
	}
	return nil
}

// errCut is for a tar that ends without the zeros that mark its end: package
// tar takes that for an end as well, and would not miss what was cut off.
var errCut = errors.New("its end is missing")

// ending remembers the last block that was read.
type ending struct {
	r    io.Reader
	last [512]byte
	n    int64
}

func (e *ending) Read(p []byte) (int, error) {
	n, err := e.r.Read(p)
	got := p[:n]
	if len(got) >= len(e.last) {
		copy(e.last[:], got[len(got)-len(e.last):])
	} else {
		copy(e.last[:], e.last[n:])
		copy(e.last[len(e.last)-n:], got)
	}
	e.n += int64(n)
	return n, err
}

func (e *ending) marked() bool { return e.n >= int64(len(e.last)) && e.last == [512]byte{} }

func decompress(format plan.Archive, r io.Reader) (io.Reader, func(), error) {
	switch format {
	case plan.TarGzip:
		z, err := gzip.NewReader(r)
		return z, func() {}, err
	case plan.TarZstd:
		z, err := zstd.NewReader(r, zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderLowmem(true), zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, nil, err
		}
		return z, z.Close, nil
	}
	return r, func() {}, nil
}

func entries(t *tar.Reader, g *guard) error {
	for seen := false; ; seen = true {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			if !seen {
				return errEmpty
			}
			return nil
		}
		if err != nil {
			return err
		}
		if err := entry(t, h, g); err != nil {
			return err
		}
	}
}

// errEmpty is for a file of zeros, which tar takes for an archive's end.
var errEmpty = errors.New("it has no entries")

const (
	setuid = 0o4000
	setgid = 0o2000
)

func entry(t *tar.Reader, h *tar.Header, g *guard) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	p, err := g.name(h.Name)
	if err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeDir:
		return g.folder(p)
	case tar.TypeReg, tar.TypeGNUSparse:
		if h.Mode&(setuid|setgid) != 0 {
			return refuse(errdefs.ErrInvalidArgument, "the archive has the setuid file %q", h.Name)
		}
		return g.file(p, h.Mode&0o111 != 0, t)
	case tar.TypeSymlink:
		return g.symlink(p, h.Linkname)
	case tar.TypeLink:
		return g.link(p, h.Linkname)
	}
	return refuse(errdefs.ErrInvalidArgument, "the archive has %q, a device or something else that is no file", h.Name)
}

// counter counts what is read and remembers the reader's own error.
type counter struct {
	r   io.Reader
	n   int64
	err error
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		c.err = err
	}
	return n, err
}

// judge tells a damaged archive from one that couldn't be read or placed.
func (c *counter) judge(format string, err error) error {
	if c.err != nil {
		return c.err
	}
	var known *source.Error
	var failed *sinkError
	if errors.As(err, &known) || errors.As(err, &failed) {
		return err
	}
	return damaged(format, err)
}
