// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"archive/zip"
	"errors"
	"io"
	"io/fs"
	"math"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/klauspost/compress/flate"

	"github.com/sedna-io/containerd-shim-sedna/storage/source"
)

// Unzip unpacks a zip archive of size bytes.
func Unzip(r io.ReaderAt, size int64, limits Limits, sink Sink) error {
	table := &directory{r: r, entries: limits.Entries}
	z, err := zip.NewReader(table, size)
	if table.err != nil {
		return table.err
	}
	if err != nil {
		return damaged("zip", err)
	}
	table.whole = true
	z.RegisterDecompressor(zip.Deflate, flate.NewReader)
	g := newGuard(sink, limits, func() int64 { return size })
	if len(z.File) == 0 {
		return damaged("zip", errEmpty)
	}
	if limits.Room != nil {
		if err := limits.Room(claimed(z.File)); err != nil {
			return err
		}
	}
	for _, f := range z.File {
		if err := unzip(f, g); err != nil {
			var known *source.Error
			var failed *sinkError
			if errors.As(err, &known) || errors.As(err, &failed) {
				return err
			}
			return damaged("zip", err)
		}
	}
	return nil
}

// claimed is what entries say that they hold. One that holds another number of
// bytes is damaged, as will show.
func claimed(files []*zip.File) (sum int64) {
	for _, f := range files {
		if f.UncompressedSize64 > uint64(math.MaxInt64-sum) {
			return math.MaxInt64
		}
		sum += int64(f.UncompressedSize64)
	}
	return sum
}

const encrypted = 1 // bit 0 of a zip entry's flags

func unzip(f *zip.File, g *guard) error {
	p, err := g.name(f.Name)
	if err != nil {
		return err
	}
	mode := f.Mode()
	switch {
	case f.Flags&encrypted != 0:
		return refuse(errdefs.ErrInvalidArgument, "the archive has the encrypted file %q", f.Name)
	case strings.HasSuffix(f.Name, "/") || mode.IsDir():
		return g.folder(p)
	case mode&(fs.ModeSetuid|fs.ModeSetgid) != 0:
		return refuse(errdefs.ErrInvalidArgument, "the archive has the setuid file %q", f.Name)
	case mode&fs.ModeType != 0 && mode&fs.ModeType != fs.ModeSymlink:
		return refuse(errdefs.ErrInvalidArgument, "the archive has %q, a device or something else that is no file", f.Name)
	}
	r, err := f.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	if mode&fs.ModeType == fs.ModeSymlink {
		target, err := io.ReadAll(io.LimitReader(r, 4096))
		if err != nil {
			return err
		}
		return g.symlink(p, string(target))
	}
	return g.file(p, mode&0o111 != 0, r)
}
