// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/sedna-io/containerd-shim-sedna/storage/archive"
	"github.com/sedna-io/containerd-shim-sedna/storage/place"
	"github.com/sedna-io/containerd-shim-sedna/storage/plan"
)

// unpack collects an archive's entries: files in .sedna under names of ours,
// the rest in memory. Nothing is placed before all of it is known to be good.
type unpack struct {
	ctx     context.Context // of the run: an archive may take long
	e       *engine
	entries []unpacked
	files   map[string]int // index of a file's latest entry, by path
	bytes   int64
	// taken is how many bytes and files are held against the run's limits.
	taken, takenFiles int64
	// relieve makes room on the disk, as far as that can be.
	relieve func() bool
}

// nothing is what most have to give back.
func nothing() bool { return false }

// unpacked is one entry: a folder, a link, or a staged file.
type unpacked struct {
	path   string
	target string // of a link
	file   *staged
	over   bool // a later entry has its path
}

func (e *engine) unpackStream(ctx context.Context, t *transfer, from *follower, in io.Reader) (*unpack, error) {
	u := &unpack{ctx: ctx, e: e, files: map[string]int{}, relieve: func() bool { return from.giveBack(e.tree) }}
	return u, archive.Stream(t.item.Archive, in, e.archiveLimits(), u)
}

func (e *engine) archiveLimits() archive.Limits {
	return archive.Limits{Entries: e.req.Limits.MaxFiles, Bytes: e.req.Limits.MaxBytes, Room: e.space.room}
}

// Folder implements archive.Sink.
func (u *unpack) Folder(p string) error {
	u.entries = append(u.entries, unpacked{path: p})
	return nil
}

// File implements archive.Sink.
func (u *unpack) File(p string, executable bool, r io.Reader) error {
	u.takenFiles++
	if err := u.e.space.file(); err != nil {
		return err
	}
	name := "entry-" + strconv.FormatInt(u.e.names.Add(1), 36)
	f, err := u.e.tree.Create(name)
	if err != nil {
		return archive.SinkError(u.e.space.explain(err))
	}
	defer f.Close()
	u.replace(p, unpacked{path: p, file: &staged{name: name}})
	buf := getBuffer()
	defer putBuffer(buf)
	to := &spaceWriter{ctx: u.ctx, space: u.e.space, w: f, taken: &u.taken, relieve: u.relieve}
	n, err := io.CopyBuffer(to, struct{ io.Reader }{r}, *buf)
	if to.err != nil {
		return archive.SinkError(to.err)
	}
	if err != nil {
		return err
	}
	u.bytes += n
	if executable {
		if err := place.Executable(f); err != nil {
			return archive.SinkError(fmt.Errorf("set an unpacked file's mode: %w", err))
		}
	}
	u.entries[u.files[p]].file.info, err = place.InfoOf(f)
	return archive.SinkError(err)
}

// replace adds an entry in the place of one with its path.
func (u *unpack) replace(p string, entry unpacked) {
	if old, ok := u.files[p]; ok {
		u.entries[old].over = true
	}
	u.files[p] = len(u.entries)
	u.entries = append(u.entries, entry)
}

// Symlink implements archive.Sink.
func (u *unpack) Symlink(p, target string) error {
	u.replace(p, unpacked{path: p, target: target})
	return nil
}

// Link implements archive.Sink.
func (u *unpack) Link(p, old string) error {
	of := u.entries[u.files[old]].file
	name := "entry-" + strconv.FormatInt(u.e.names.Add(1), 36)
	if err := u.e.tree.LinkStaged(of.name, name); err != nil {
		return archive.SinkError(err)
	}
	u.replace(p, unpacked{path: p, file: &staged{name: name, info: of.info}})
	return nil
}

// spaceWriter keeps unpacked bytes within the run's limits.
type spaceWriter struct {
	ctx   context.Context
	space *space
	w     io.Writer
	taken *int64
	err   error

	relieve func() bool
}

func (w *spaceWriter) Write(p []byte) (int, error) {
	if w.err = context.Cause(w.ctx); w.err != nil {
		return 0, w.err
	}
	*w.taken += int64(len(p))
	if w.err = w.space.more(int64(len(p)), w.relieve); w.err != nil {
		return 0, w.err
	}
	done := 0
	for {
		n, err := w.w.Write(p[done:])
		done += n
		if err == nil || isFull(err) && w.relieve() {
			if done == len(p) {
				return done, nil
			}
			continue
		}
		w.err = w.space.explain(err)
		return done, w.err
	}
}

// discard removes what was unpacked.
func (u *unpack) discard(e *engine) {
	if u == nil {
		return
	}
	e.space.less(u.taken, u.takenFiles)
	u.taken, u.takenFiles = 0, 0
	for _, entry := range u.entries {
		if entry.file != nil {
			_ = e.tree.Discard(entry.file.name) // the next run clears what is left
		}
	}
}

// finishArchive has a whole archive's entries placed.
func (e *engine) finishArchive(ctx context.Context, t *transfer, digest string) error {
	defer t.close()
	u := (*unpack)(nil)
	if t.item.Archive == plan.Zip {
		u = &unpack{ctx: ctx, e: e, files: map[string]int{}, relieve: nothing}
		if err := archive.Unzip(t.file, t.total(), e.archiveLimits(), u); err != nil {
			u.discard(e)
			return e.space.explain(err)
		}
	} else {
		u = t.consumer.tree
	}
	if digest != "" {
		t.state.digest.Store(&digest)
	}
	e.whenListed(func(ctx context.Context) error { return itemError(t.item, u.place(ctx, t)) })
	return nil
}

// place gives the entries their paths and drops the archive.
func (u *unpack) place(ctx context.Context, t *transfer) error {
	e := u.e
	for _, entry := range u.entries {
		if entry.over {
			continue
		}
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		p := join(t.path, entry.path)
		if err := u.placeOne(&t.job, p, entry); err != nil {
			return e.space.explain(err)
		}
	}
	e.expected.Add(u.bytes - t.total())
	e.bytes.Add(u.bytes - t.total())
	t.state.bytes.Add(u.bytes - t.total())
	return errors.Join(e.tree.Discard(t.dataName()), e.tree.Discard(t.logName()))
}

func (u *unpack) placeOne(j *job, p string, entry unpacked) error {
	e := u.e
	switch {
	case entry.file != nil:
		one := *j
		one.path, one.obj.Validator = p, ""
		return e.placeFile(&one, entry.file)
	case entry.target != "":
		if err := e.claim(j, p); err != nil {
			return err
		}
		if err := e.space.file(); err != nil { // it costs an inode too
			return err
		}
		return e.tree.Symlink(entry.target, p)
	}
	return e.tree.Mkdir(p)
}

func join(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}
