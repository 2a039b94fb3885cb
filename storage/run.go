// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/containerd/errdefs"
	"golang.org/x/sync/errgroup"

	"github.com/sedna-io/containerd-shim-sedna/storage/place"
	"github.com/sedna-io/containerd-shim-sedna/storage/source"
	"github.com/sedna-io/containerd-shim-sedna/storage/source/ranged"
	"github.com/sedna-io/containerd-shim-sedna/storage/worker"
)

// Run fetches all items of a request into the volume at root, tells emit how
// far it is at least once a second, and returns how it went. emit is called by
// one goroutine at a time and not after Run has returned. When ctx ends, what
// is half done stays for the next run.
func Run(ctx context.Context, root *os.Root, req worker.Request, emit func(worker.Event)) (*worker.Report, error) {
	started := time.Now()
	for i := range req.Items {
		if err := supported(&req.Items[i]); err != nil {
			return nil, itemError(&req.Items[i], err)
		}
	}
	tree, err := place.Open(root)
	if err != nil {
		return nil, err
	}
	defer tree.Close()
	network, err := ranged.NewNetwork(req.Network, req.Limits.Concurrency)
	if err != nil {
		return nil, err
	}
	defer network.Close()
	r := &run{tree: tree, network: network, req: &req, items: make([]itemState, len(req.Items))}
	key := requestKey(req.Items)
	before := &past{}
	if !req.Writable {
		before = readPast(tree, key)
	}
	if before.finished(tree) {
		return r.found(before.done, started), nil
	}
	for _, p := range before.stale {
		if err := tree.Remove(p); err != nil {
			return nil, err
		}
	}
	if r.journal, err = startJournal(tree, key, before.files); err != nil {
		return nil, err
	}
	defer r.journal.close()
	stop := r.heartbeat(emit)
	err = r.fetch(ctx)
	stop()
	if err != nil {
		return nil, err
	}
	if err := tree.Sync(); err != nil {
		return nil, err
	}
	if err := r.journal.finish(r.summary()); err != nil {
		return nil, err
	}
	return r.report(started), nil
}

// supported refuses what a later issue brings.
func supported(item *worker.Item) error {
	for what, asked := range map[string]bool{
		"unpacking archives": item.Archive != "", "index files": item.Indirect, "digests": item.Digest != "",
		"include and exclude": len(item.Include)+len(item.Exclude) > 0,
	} {
		if asked {
			return fmt.Errorf("%s: not supported yet: %w", what, errdefs.ErrInvalidArgument)
		}
	}
	if item.Dir && item.URL.Scheme != "s3" {
		return fmt.Errorf("a directory can't be listed over %s; name an index file (indirect) or an archive: %w", item.URL.Scheme, errdefs.ErrInvalidArgument)
	}
	return nil
}

// run is one Run.
type run struct {
	tree    *place.Tree
	network *ranged.Network
	req     *worker.Request
	journal *journal
	items   []itemState

	bytes, fetched, files atomic.Int64
	names                 atomic.Int64 // of partial files
}

// itemState is how far one item is.
type itemState struct {
	bytes, fetched, files, attempts atomic.Int64
	elapsed                         atomic.Int64 // ns
}

func (r *run) fetch(ctx context.Context) error {
	for i := range r.req.Items {
		if err := r.fetchItem(ctx, i); err != nil {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return itemError(&r.req.Items[i], err)
		}
	}
	return nil
}

func (r *run) fetchItem(ctx context.Context, i int) error {
	began := time.Now()
	item, state := &r.req.Items[i], &r.items[i]
	src, err := openSource(r.network, item)
	if err != nil {
		return err
	}
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	err = src.List(gctx, func(o source.Object) error {
		p := target(item, o)
		if err := place.CheckPath(p); err != nil {
			return err
		}
		if o.Folder {
			return r.tree.Mkdir(p)
		}
		group.Go(func() error { return r.fetchObject(gctx, src, state, o, p) })
		return nil
	})
	if failed := group.Wait(); failed != nil {
		err = failed
	}
	state.elapsed.Store(int64(time.Since(began)))
	return err
}

func (r *run) fetchObject(ctx context.Context, src source.Source, state *itemState, o source.Object, p string) error {
	for try := 0; ; try++ {
		state.attempts.Add(1)
		err := r.once(ctx, src, state, o, p)
		if err == nil || !source.IsTransient(err) || try == 3 || ctx.Err() != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(time.Second << try):
		}
	}
}

func (r *run) once(ctx context.Context, src source.Source, state *itemState, o source.Object, p string) error {
	name := fmt.Sprintf("part-%d", r.names.Add(1))
	f, err := r.tree.Create(name)
	if err != nil {
		return err
	}
	defer f.Close()
	n, err := r.stream(ctx, src, state, o, f)
	if err != nil {
		r.bytes.Add(-n)
		state.bytes.Add(-n)
		return errors.Join(err, r.tree.Discard(name))
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := r.tree.Publish(name, p); err != nil {
		return err
	}
	info, err := place.InfoOf(f)
	if err != nil {
		return err
	}
	r.files.Add(1)
	state.files.Add(1)
	return r.journal.add(record{Path: p, Size: info.Size, MTime: info.MTime, Inode: info.Inode, Validator: o.Validator})
}

func (r *run) stream(ctx context.Context, src source.Source, state *itemState, o source.Object, f *os.File) (int64, error) {
	if o.Size == 0 {
		return 0, nil
	}
	reply, err := src.Open(ctx, o, 0, -1)
	if err != nil {
		return 0, err
	}
	defer reply.Body.Close()
	if reply.Unbounded {
		return 0, &source.Error{Kind: errdefs.ErrDataLoss, Why: "the server doesn't say how long the file is", Hint: "give its digest"}
	}
	n, err := io.Copy(io.MultiWriter(f, counter{&r.bytes, &r.fetched}, counter{&state.bytes, &state.fetched}), reply.Body)
	if err == nil && reply.Size >= 0 && n != reply.Size {
		err = &source.Error{Kind: errdefs.ErrUnavailable, Transient: true, Why: fmt.Sprintf("the file ended after %d of %d bytes", n, reply.Size)}
	}
	return n, err
}

type counter [2]*atomic.Int64

func (c counter) Write(p []byte) (int, error) {
	c[0].Add(int64(len(p)))
	c[1].Add(int64(len(p)))
	return len(p), nil
}
