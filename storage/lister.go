// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"fmt"
	"strings"

	"github.com/containerd/errdefs"

	"github.com/sedna-io/containerd-shim-sedna/storage/place"
	"github.com/sedna-io/containerd-shim-sedna/storage/plan"
	"github.com/sedna-io/containerd-shim-sedna/storage/source"
	"github.com/sedna-io/containerd-shim-sedna/storage/worker"
)

// lister turns one item's objects into jobs.
type lister struct {
	engine *engine
	index  int
	item   *worker.Item
	state  *itemState
	src    source.Source

	listed, chosen int
	folders        int64    // markers of folders
	open           []string // files whose name may yet turn up as a folder's
}

func (l *lister) list(ctx context.Context) error {
	if err := l.src.List(ctx, func(o source.Object) error { return l.object(o) }); err != nil {
		return err
	}
	if l.chosen == 0 {
		return &source.Error{
			Kind: errdefs.ErrNotFound, Why: fmt.Sprintf("include and exclude leave none of the %d files", l.listed),
			Hint: "patterns are matched against the path below the URL",
		}
	}
	return nil
}

func (l *lister) object(o source.Object) error {
	if !l.selects(o) {
		return nil
	}
	if o.Path != "" && !l.item.Indirect {
		if err := l.onlyOne(); err != nil {
			return err
		}
	}
	p := l.item.Path // of an archive, where it's unpacked
	if l.item.Archive == plan.NoArchive {
		p = target(l.item, o)
		if err := place.CheckPath(p); err != nil {
			return err
		}
		if err := l.conflict(o); err != nil {
			return err
		}
	}
	e := l.engine
	j := job{index: l.index, item: l.item, state: l.state, src: l.src, obj: o, path: p}
	if o.Folder {
		l.folders++
		if err := e.space.withinFolders(l.folders); err != nil {
			return err
		}
		e.whenListed(func(context.Context) error { return itemError(l.item, e.tree.Mkdir(p)) })
		return nil
	}
	if err := e.space.file(); err != nil {
		return err
	}
	if err := e.announce(max(o.Size, 0)); err != nil {
		return err
	}
	return e.enqueue(j)
}

// selects applies include and exclude to what lies below the URL.
func (l *lister) selects(o source.Object) bool {
	if o.Folder {
		// A folder with nothing chosen in it need not appear.
		return len(l.item.Include)+len(l.item.Exclude) == 0
	}
	l.listed++
	name := o.Path
	if name == "" {
		name = l.item.URL.Path[strings.LastIndexByte(l.item.URL.Path, '/')+1:]
	}
	if !l.item.Selects(name) {
		return false
	}
	l.chosen++
	return true
}

// onlyOne refuses a tree where the item is about one file.
func (l *lister) onlyOne() error {
	switch {
	case l.item.Archive != plan.NoArchive:
		return &source.Error{
			Kind: errdefs.ErrNotFound, Why: "there is no such archive, but a folder of that name",
			Hint: `end the URL with a slash, or set unpack to "never"`,
		}
	case l.item.Digest != "":
		return &source.Error{
			Kind: errdefs.ErrInvalidArgument, Why: "a digest is for one file, and the URL names a folder", Hint: "remove the digest",
		}
	}
	return nil
}

// conflict finds a name that is a file's and a folder's too, before anything
// is placed. Listings are sorted by bytes, so that between the file `a` and
// `a/b` there can only be names that begin with `a` and a byte below the slash.
func (l *lister) conflict(o source.Object) error {
	for len(l.open) > 0 {
		top := l.open[len(l.open)-1]
		if strings.HasPrefix(o.Path, top+"/") || o.Folder && o.Path == top {
			return &source.Error{
				Kind: errdefs.ErrAlreadyExists, Why: fmt.Sprintf("%q is a file and a folder too, as %q shows", top, o.Path),
				Hint: "exclude one of them",
			}
		}
		if strings.HasPrefix(o.Path, top) {
			break
		}
		l.open = l.open[:len(l.open)-1]
	}
	if !o.Folder && o.Path != "" {
		l.open = append(l.open, o.Path)
	}
	return nil
}

// known says whether an earlier run placed this very object already.
func (e *engine) known(ctx context.Context, j *job) bool {
	r, ok := e.before.files[j.path]
	e.held.Add(-e.kept["/"+j.path]) // from here on it is counted as found, or fetched anew
	if !ok || j.item.Archive != plan.NoArchive || r.Digest != j.item.Digest || !r.reusable() || !e.before.unchanged(e.tree, r) {
		return false
	}
	switch {
	case j.obj.Validator == "":
		if !e.stillThere(ctx, j, r) {
			return false
		}
		e.expected.Add(r.Size)
	case j.obj.Validator != r.Validator || j.obj.Size != r.Size:
		return false
	}
	e.found(j, r.Size)
	j.placed()
	e.files.Add(1)
	return true
}

// stillThere asks the source for one byte of the version that was placed.
func (e *engine) stillThere(ctx context.Context, j *job, r record) bool {
	o := j.obj
	o.Size, o.Validator = r.Size, r.Validator
	reply, err := j.src.Open(ctx, o, 0, 1)
	if err != nil {
		return false
	}
	defer reply.Body.Close()
	return reply.Validator == r.Validator && reply.Size == r.Size
}
