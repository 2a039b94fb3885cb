// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"bytes"
	"io"
	"slices"

	"github.com/containerd/errdefs"
)

// maxDirectory bounds a zip's table of contents, bytes: room for a million
// entries with long names.
const maxDirectory = 128 << 20

// directoryHeader begins each entry of a zip's table of contents.
var directoryHeader = []byte("PK\x01\x02")

// directory looks on while package zip reads an archive's table of contents. It
// keeps all of that in memory, and takes for an entry whatever looks like one,
// however many the archive claims to have: so it's ended here, where there are
// more than may be.
//
// It reads the table from front to back. What it looks at before that, the
// archive's end, are other places, after which the counting begins anew.
type directory struct {
	r       io.ReaderAt
	entries int64 // at most, 0 for any number
	whole   bool  // the table was read

	off  int64  // where the last read ended
	read int64  // bytes in one go up to there
	seen int64  // headers among them
	last []byte // of them, too few for a header
	err  error
}

// ReadAt implements io.ReaderAt.
func (d *directory) ReadAt(p []byte, off int64) (int, error) {
	n, err := d.r.ReadAt(p, off)
	if d.whole {
		return n, err
	}
	if off != d.off {
		d.read, d.seen, d.last = 0, 0, d.last[:0]
	}
	d.count(p[:n])
	d.off = off + int64(n)
	switch {
	case d.entries > 0 && d.seen > d.entries:
		d.err = tooMany(d.entries)
	case d.read > maxDirectory:
		d.err = refuse(errdefs.ErrResourceExhausted, "the archive's table of contents is larger than %d MiB", maxDirectory>>20)
	}
	if d.err != nil {
		return 0, d.err
	}
	return n, err
}

func (d *directory) count(data []byte) {
	const most = 3 // bytes of a header that another read has the rest of
	d.read += int64(len(data))
	joint := slices.Concat(d.last, data[:min(most, len(data))])
	d.seen += int64(bytes.Count(joint, directoryHeader) + bytes.Count(data, directoryHeader))
	if len(data) >= most {
		joint = data
	}
	d.last = slices.Clone(joint[max(len(joint)-most, 0):])
}
