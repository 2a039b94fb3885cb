// SPDX-License-Identifier: Apache-2.0

// Package archive reads archives that strangers made, and hands on only
// entries that stay where they belong.
//
//	format            read from
//	.tar              a stream
//	.tar.gz .tgz      a stream
//	.tar.zst          a stream, windows up to 64 MiB
//	.zip              a whole file: its table of contents stands at the end
//
// Refused are absolute and escaping names, devices, pipes, setuid and setgid
// files, links that lead out, an entry below another that is no folder, and
// whatever grows beyond the limits. Owners, times and extended attributes are
// not taken over.
package archive

import (
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/containerd/errdefs"

	"github.com/sedna-io/containerd-shim-sedna/storage/place"
	"github.com/sedna-io/containerd-shim-sedna/storage/source"
)

// Sink takes an archive's entries, in its order. Paths are checked; a later
// entry of the same path replaces an earlier one.
type Sink interface {
	// Folder may be told of one folder several times.
	Folder(p string) error
	// File reads its content from r, to the end.
	File(p string, executable bool, r io.Reader) error
	// Symlink has a relative target that stays inside the archive's root.
	Symlink(p, target string) error
	// Link is another name of a file that came before.
	Link(p, old string) error
}

// Limits bound what an archive may become.
type Limits struct {
	// Entries at most, and Bytes of content; 0 is no limit.
	Entries, Bytes int64
	// Room is asked for the content of an archive that says how much that is,
	// before its first entry; nil lets all pass.
	Room func(bytes int64) error
}

// An archive that holds more than freeBytes may be at most maxRatio times as
// large as what was read of it.
const (
	freeBytes = 256 << 20
	maxRatio  = 250
)

// guard checks entries on their way to a sink.
type guard struct {
	sink   Sink
	limits Limits
	read   func() int64 // bytes of the archive read so far

	entries, bytes int64
	kinds          map[string]kind
}

type kind byte

const (
	folder kind = iota + 1
	file
	symlink
)

func newGuard(sink Sink, limits Limits, read func() int64) *guard {
	return &guard{sink: sink, limits: limits, read: read, kinds: map[string]kind{}}
}

// name checks an entry's name and that it lies in folders only. The root
// itself is "".
func (g *guard) name(raw string) (string, error) {
	g.entries++
	if g.limits.Entries > 0 && g.entries > g.limits.Entries {
		return "", tooMany(g.limits.Entries)
	}
	p := strings.TrimSuffix(raw, "/")
	for strings.HasPrefix(p, "./") {
		p = strings.TrimLeft(p[2:], "/")
	}
	if p == "." || p == "" && raw != "/" {
		return "", nil
	}
	if strings.HasPrefix(raw, "/") {
		return "", refuse(errdefs.ErrInvalidArgument, "the archive has the absolute name %q", raw)
	}
	if err := place.CheckPath(p); err != nil {
		return "", refuse(errdefs.ErrInvalidArgument, "in the archive %s", strings.TrimSuffix(err.Error(), ": "+errdefs.ErrInvalidArgument.Error()))
	}
	for dir := path.Dir(p); dir != "."; dir = path.Dir(dir) {
		switch g.kinds[dir] {
		case folder:
			return p, nil // and so are those above
		case file, symlink:
			return "", refuse(errdefs.ErrInvalidArgument, "the archive has %q below %q, which is no folder", p, dir)
		}
	}
	for dir := path.Dir(p); dir != "." && g.kinds[dir] == 0; dir = path.Dir(dir) {
		g.kinds[dir] = folder
	}
	return p, nil
}

// become notes what a path is from now on.
func (g *guard) become(p string, k kind) error {
	if was := g.kinds[p]; was != 0 && (was == folder) != (k == folder) {
		return refuse(errdefs.ErrInvalidArgument, "the archive has %q as a folder and as something else", p)
	}
	g.kinds[p] = k
	return nil
}

func (g *guard) folder(p string) error {
	if p == "" {
		return nil
	}
	if err := g.become(p, folder); err != nil {
		return err
	}
	return g.sink.Folder(p)
}

func (g *guard) file(p string, executable bool, r io.Reader) error {
	if p == "" {
		return refuse(errdefs.ErrInvalidArgument, "the archive has a file without a name")
	}
	if err := g.become(p, file); err != nil {
		return err
	}
	return g.sink.File(p, executable, &counted{g, r})
}

// symlink takes a link whose target can't lead out: leading ".." are counted
// from the link's own folder, which is a real one, and no ".." follows a name,
// which might be a link itself.
func (g *guard) symlink(p, target string) error {
	if p == "" {
		return refuse(errdefs.ErrInvalidArgument, "the archive has a link without a name")
	}
	up, names := 0, 0
	for part := range strings.SplitSeq(target, "/") {
		switch {
		case part == "" || part == ".":
		case part == ".." && names == 0:
			up++
		case part == "..":
			return g.leads(p, target)
		default:
			names++
		}
	}
	if target == "" || strings.HasPrefix(target, "/") || up > strings.Count(p, "/") || strings.ContainsRune(target, 0) || len(target) > 4095 {
		return g.leads(p, target)
	}
	if err := g.become(p, symlink); err != nil {
		return err
	}
	return g.sink.Symlink(p, target)
}

func (g *guard) leads(p, target string) error {
	return refuse(errdefs.ErrInvalidArgument, "the archive has the link %q to %q, which may lead out of it", p, target)
}

func (g *guard) link(p, raw string) error {
	old := strings.TrimPrefix(raw, "./")
	if p == "" || g.kinds[old] != file {
		return refuse(errdefs.ErrInvalidArgument, "the archive has the hard link %q to %q, which is no file before it", p, raw)
	}
	if old == p {
		return nil
	}
	if err := g.become(p, file); err != nil {
		return err
	}
	return g.sink.Link(p, old)
}

// counted holds a file's content against the limits.
type counted struct {
	g *guard
	r io.Reader
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	g := c.g
	g.bytes += int64(n)
	switch {
	case g.limits.Bytes > 0 && g.bytes > g.limits.Bytes:
		return n, refuse(errdefs.ErrResourceExhausted, "the archive holds more than %d bytes", g.limits.Bytes)
	case g.bytes > freeBytes && g.bytes/maxRatio > g.read():
		return n, refuse(errdefs.ErrResourceExhausted, "the archive unpacks to more than %d times its size", maxRatio)
	}
	return n, err
}

func refuse(kind error, format string, args ...any) *source.Error {
	return &source.Error{Kind: kind, Why: fmt.Sprintf(format, args...), Hint: "make the archive anew, or set unpack to \"never\" to get it as it is"}
}

func tooMany(entries int64) *source.Error {
	return refuse(errdefs.ErrResourceExhausted, "the archive has more than %d entries", entries)
}

// damaged is for archives that can't be read to their end.
func damaged(format string, err error) error {
	return &source.Error{
		Kind: errdefs.ErrDataLoss, Err: err, Why: "the archive is damaged or no " + format + " (" + err.Error() + ")",
		Hint: "check the file at the source",
	}
}
