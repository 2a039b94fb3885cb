// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"io"
	"os"
)

// Unknown is a size that the source didn't say.
const Unknown = -1

// Object is one file, or one empty folder, that a source holds.
type Object struct {
	// Path is where it lies below the URL that was asked for: slash-separated,
	// "" when the URL names this very file. It is what the source says:
	// nobody has checked it yet.
	Path string
	// Key is what Open needs to find it again.
	Key string
	// Size is in bytes, or Unknown.
	Size int64
	// Validator is a strong ETag with its quotes, "" where there's none. Two
	// replies with one validator hold the same bytes.
	Validator string
	// Sum is the source's own checksum, if it offers one.
	Sum Checksum
	// Folder marks a directory: it has no bytes.
	Folder bool
}

// Source is somewhere to fetch from. Its methods may run side by side.
type Source interface {
	// List calls yield for each object below the URL, in no promised order,
	// and stops at yield's first error. Finding nothing is an error.
	List(ctx context.Context, yield func(Object) error) error
	// Open asks for the bytes from off up to end of the version that
	// o.Validator names, or of any version if there's none; a negative end
	// means all that follows. What came back is in the Reply, which may be
	// more than was asked for: a server may not know ranges.
	Open(ctx context.Context, o Object, off, end int64) (*Reply, error)
}

// Reply is what a server sent, by its own words.
type Reply struct {
	// Body must be closed. It yields io.ErrUnexpectedEOF when it ends early.
	Body io.ReadCloser
	// Offset is where Body's first byte stands in the object.
	Offset int64
	// Length is that of Body, Size that of the object; or Unknown.
	Length, Size int64
	// Validator is the strong ETag of this reply, "" where there's none.
	Validator string
	// Ranged says that the server answered to the range, so it knows ranges.
	Ranged bool
	// Sum is the source's own checksum of the whole, if it offers one.
	Sum Checksum
	// Unbounded says that the body's end is only the connection's end, so that
	// a short one can't be told from a whole one.
	Unbounded bool
	// Page says that the server claims to send a web page.
	Page bool
}

// Pourer is a Body whose bytes need not pass through this process.
type Pourer interface {
	// Pour is Read, but may leave buf as it was and put the bytes into f at off,
	// and says so. The buffer must be the same each time. What fails in f is told as
	// it is, besides how many bytes got there.
	Pour(f *os.File, off int64, buf []byte) (n int, poured bool, err error)
}
