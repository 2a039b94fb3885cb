// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"fmt"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"

	"github.com/sedna-io/containerd-shim-sedna/storage/place"
	"github.com/sedna-io/containerd-shim-sedna/storage/plan"
	"github.com/sedna-io/containerd-shim-sedna/storage/source"
)

// announce takes bytes that will come into account.
func (e *engine) announce(n int64) error {
	if err := e.space.announce(n); err != nil {
		return err
	}
	e.expected.Add(n)
	return nil
}

// retract takes back what was announced of an object that turns out to be
// another.
func (e *engine) retract(n int64) {
	e.space.less(n, 0)
	e.expected.Add(-n)
}

// expect holds a transfer's size against the limits, whenever a reply says
// another than before; source.Unknown is none.
func (e *engine) expect(t *transfer, size int64) error {
	if size == t.announced {
		return nil
	}
	e.retract(max(t.announced, 0))
	t.announced = source.Unknown
	if size < 0 {
		return nil
	}
	if err := e.announce(size); err != nil {
		return err
	}
	t.announced = size
	return nil
}

// begin starts a job: a small object is fetched at once, a big one in parts.
func (e *engine) begin(ctx context.Context, j job) error {
	if e.known(ctx, &j) {
		return nil
	}
	// The files of an index are many and mostly small; their sizes will show.
	small := j.obj.Size >= 0 && j.obj.Size <= wholeSize || j.item.Indirect && j.obj.Size == source.Unknown
	if small && j.item.Archive == plan.NoArchive {
		return e.whole(ctx, j)
	}
	return itemError(j.item, e.open(ctx, j))
}

// open makes a job a transfer, going on from an earlier run's where it can.
func (e *engine) open(ctx context.Context, j job) error {
	if len(e.req.Items) == 1 { // others would wait for it
		few := int64(fewWeb)
		if j.item.URL.Scheme == "s3" {
			few = fewS3
		}
		e.tuner.beginFew(few)
	}
	t := newTransfer(j, e.tuner.max)
	t.announced = j.obj.Size
	if err := e.alone(t.dataName()); err != nil {
		return err
	}
	if !e.goOn(ctx, t) {
		if ctx.Err() != nil {
			return context.Cause(ctx) // before what is there is given up
		}
		f, err := e.tree.Create(t.dataName())
		if err != nil {
			return e.space.explain(err)
		}
		t.file, t.todo = f, spans{{0, toEnd}}
		if v := t.version(); v.Size >= 0 {
			if t.mode = stream; v.tied() {
				t.mode, t.todo = parallel, spans{{0, v.Size}}
			}
			if err := e.prepare(t); err != nil {
				f.Close()
				return err
			}
		}
	}
	t.consumer = e.consume(ctx, t)
	e.mu.Lock()
	t.ctx, t.cancel = context.WithCancelCause(ctx)
	complete := t.mode == parallel && t.idle()
	if complete {
		e.finishing[t] = true
	} else {
		e.transfers = append(e.transfers, t)
	}
	e.changed.Broadcast()
	e.mu.Unlock()
	if complete {
		return e.complete(ctx, t)
	}
	return nil
}

// alone refuses a second transfer into the same partial file: a source that
// lists one key twice.
func (e *engine) alone(name string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.opened[name] {
		return &source.Error{Kind: errdefs.ErrDataLoss, Why: "the source lists one file twice", Hint: "check the source"}
	}
	e.opened[name] = true
	e.held.Add(-e.kept[name])
	return nil
}

// goOn takes over what an earlier run has fetched of the very same object. In
// a volume that containers may write, only a digest proves such bytes.
func (e *engine) goOn(ctx context.Context, t *transfer) bool {
	if e.req.Writable && t.item.Digest == "" {
		return false
	}
	r := resume(ctx, e.tree, t.dataName(), t.logName(), t.obj.Key, t.item.Digest)
	if r == nil {
		return false
	}
	v := r.version
	if t.obj.Size >= 0 && t.obj.Size != v.Size || t.obj.Validator != "" && t.obj.Validator != v.Validator {
		r.close()
		return false
	}
	if len(r.have) > 0 && t.obj.Validator == "" && r.have.sum() == v.Size {
		// The source has not said yet that this is its version: its answer
		// about the last byte will.
		last := &r.have[len(r.have)-1]
		last.end--
	}
	t.file, t.log = r.data, r.log
	t.have, t.size, t.obj.Validator = r.have, v.Size, v.Validator
	t.todo, t.mode, t.resumed = r.have.missing(v.Size), parallel, true
	// What it takes on the disk needs no space again.
	e.held.Add(e.kept[t.dataName()])
	err := e.expect(t, v.Size)
	e.held.Add(-e.kept[t.dataName()])
	if err != nil {
		r.close()
		t.have, t.size, t.todo, t.mode, t.obj.Validator = nil, source.Unknown, nil, probing, ""
		return false
	}
	e.found(&t.job, r.have.sum())
	if kept := e.kept[t.dataName()]; kept >= v.Size {
		e.held.Add(t.reserve(v.Size))
	}
	return true
}

// prepare gives a partial file its size and its log. On a disk the blocks are
// reserved at once; on a tmpfs that would write every page twice.
func (e *engine) prepare(t *transfer) error {
	v := t.version()
	if !e.space.memory && v.Size > 0 {
		err := unix.Fallocate(int(t.file.Fd()), 0, 0, v.Size)
		if err != nil && err != unix.EOPNOTSUPP && err != unix.ENOSYS {
			return e.space.explain(fmt.Errorf("reserve space for a file: %w", err))
		}
		if err == nil {
			e.held.Add(t.reserve(v.Size))
		}
	}
	if err := t.file.Truncate(v.Size); err != nil {
		return e.space.explain(fmt.Errorf("size a partial file: %w", err))
	}
	if !v.tied() || t.mode != parallel {
		return nil
	}
	l, err := startLog(e.tree, t.logName(), v)
	if err != nil {
		return e.space.explain(err)
	}
	t.log = l
	return nil
}

// dropLog forgets what has arrived, on disk too.
func (t *transfer) dropLog(tree *place.Tree) {
	if t.log == nil {
		return
	}
	t.log.close()
	t.log = nil
	_ = tree.Discard(t.logName()) // its sums would prove it wrong anyway
}
