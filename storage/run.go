// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/containerd/errdefs"

	"github.com/sedna-io/containerd-shim-sedna/storage/place"
	"github.com/sedna-io/containerd-shim-sedna/storage/source"
	"github.com/sedna-io/containerd-shim-sedna/storage/source/ranged"
	"github.com/sedna-io/containerd-shim-sedna/storage/worker"
)

// Run fetches all items of a request into the volume at root, tells emit how
// far it is at least once a second, and returns how it went. emit is called by
// one goroutine at a time and not after Run has returned. When ctx ends, what
// is half done stays for the next run.
func Run(ctx context.Context, root *os.Root, req worker.Request, emit func(worker.Event), options ...Option) (*worker.Report, error) {
	started := time.Now()
	for i := range req.Items {
		if err := supported(&req.Items[i]); err != nil {
			return nil, itemError(&req.Items[i], err)
		}
	}
	tree, err := openTree(root, &req)
	if err != nil {
		return nil, err
	}
	defer tree.Close()
	err = tree.Lock(ctx, func() {
		emit(worker.Event{Progress: &worker.Progress{Waiting: "another download into this volume"}})
	})
	if err != nil {
		return nil, err
	}
	if err := checkSeal(root, tree, req.Seal); err != nil {
		return nil, err
	}
	if req.Writable {
		if err := dropStrange(root, tree); err != nil {
			return nil, err
		}
	}
	network, err := ranged.NewNetwork(req.Network, concurrency(&req))
	if err != nil {
		return nil, err
	}
	defer network.Close()
	network.Retry = retryFor(&req, started)
	network.Ahead = readAhead(req.Limits.Bandwidth)
	e, err := newEngine(tree, network, &req)
	if err != nil {
		return nil, err
	}
	network.Retry.Again = e.troubled
	tree.OnFolder = e.space.folder
	for _, o := range options {
		o(e)
	}
	key := requestKey(req.Items)
	if !req.Writable {
		e.before = readPast(tree, key)
	}
	if !e.shared && e.before.finished(tree) {
		return e.foundAll(e.before.done, started), nil
	}
	if err := e.tidy(); err != nil {
		return nil, err
	}
	e.takeStock()
	if e.journal, err = startJournal(tree, key, e.before.files); err != nil {
		return nil, e.space.explain(err)
	}
	defer e.journal.close()
	stop := e.heartbeat(emit)
	err = e.run(ctx, concurrency(&req))
	stop()
	if err != nil {
		return nil, errors.Join(err, e.sweep(err))
	}
	if err := tree.Sync(); err != nil {
		return nil, err
	}
	if err := e.journal.finish(e.summary()); err != nil {
		return nil, e.space.explain(err)
	}
	return e.report(started), nil
}

// Option changes how Run serves a person instead of a pod.
type Option func(*engine)

// Shared says that the folder isn't the request's alone, as a pod's volume is:
// what other requests left in it stays, and files that are there already are
// compared with the source.
func Shared() Option { return func(e *engine) { e.shared = true } }

// Files has f told of the files under way, so often.
func Files(every time.Duration, f func([]FileProgress)) Option {
	return func(e *engine) { e.every, e.watch = every, f }
}

// FileProgress is how far one file is. Total is 0 while it's unknown.
type FileProgress struct {
	Path         string
	Bytes, Total int64
}

const (
	minAhead = 64 << 10
	maxAhead = 4 << 20

	defaultConcurrency = 32
	maxConcurrency     = 256
	defaultStall       = 30 * time.Second
)

func concurrency(req *worker.Request) int {
	if req.Limits.Concurrency <= 0 {
		return defaultConcurrency
	}
	return min(req.Limits.Concurrency, maxConcurrency)
}

// patience is how failures are retried; tests have less of it.
var patience = source.Retry{Tries: 6, Base: 250 * time.Millisecond, Max: 15 * time.Second, Longest: 2 * time.Minute}

// readAhead is how much a connection may bring before it is read, where speed is
// limited; 0 is what the kernel finds best. A run that ends loses that of each
// connection, and the kernel's best is many seconds' worth of a low limit.
func readAhead(bandwidth int64) int64 {
	if bandwidth <= 0 {
		return 0
	}
	return min(max(bandwidth/64, minAhead), maxAhead)
}

func retryFor(req *worker.Request, started time.Time) source.Retry {
	r := patience
	r.Stall = req.Limits.StallTimeout
	if r.Stall <= 0 {
		r.Stall = defaultStall
	}
	r.Early = started.Add(req.Network.Early)
	return r
}

func newEngine(tree *place.Tree, network *ranged.Network, req *worker.Request) (*engine, error) {
	e := &engine{
		every: beat, tree: tree, network: network, retry: &network.Retry, req: req, before: &past{}, listing: len(req.Items),
		items: make([]itemState, len(req.Items)), tuner: newTuner(concurrency(req)),
		speed: &throttle{rate: req.Limits.Bandwidth}, owners: map[string]int{}, opened: map[string]bool{}, finishing: map[*transfer]bool{},
	}
	e.changed = sync.NewCond(&e.mu)
	var err error
	e.space, err = newSpace(tree.Root(), req.Limits, func() int64 { return e.expected.Load() - e.bytes.Load() - e.held.Load() })
	return e, err
}

// tidy removes what an earlier run left that this one has no use for: files
// placed for another request, and what was on its way under no lasting name.
func (e *engine) tidy() error {
	stale := e.before.stale
	if e.shared {
		stale = nil
	}
	for _, p := range stale {
		if err := e.tree.Remove(p); err != nil {
			return err
		}
	}
	return e.clear(func(mine bool) bool { return mine || e.shared })
}

// sweep removes what a failed run can't go on from: files under no lasting
// name, and partial ones too where they take space that isn't there.
func (e *engine) sweep(why error) error {
	full := errors.Is(why, errdefs.ErrResourceExhausted)
	return e.clear(func(mine bool) bool { return !mine || !full })
}

// clear removes everything from .sedna but journal, seal and those partial files
// that keep wants; mine are those of this request.
func (e *engine) clear(keep func(mine bool) bool) error {
	names, err := e.tree.Staged()
	if err != nil {
		return fmt.Errorf("look into %s: %w", place.Folder, err)
	}
	mine := map[string]bool{}
	for i := range e.req.Items {
		mine[itemKey(&e.req.Items[i])[:itemPrefix]] = true
	}
	for _, name := range names {
		partial := strings.HasSuffix(name, dataEnding) || strings.HasSuffix(name, logEnding)
		if name == journalName || name == sealName || partial && keep(mine[name[:min(len(name), itemPrefix)]]) {
			continue
		}
		if err := e.tree.Discard(name); err != nil {
			return err
		}
	}
	return nil
}

// takeStock counts what of earlier runs is on the disk already: it needs no
// more space, or a second attempt would have to find it twice.
func (e *engine) takeStock() {
	e.kept = map[string]int64{}
	names, err := e.tree.Staged()
	if err != nil {
		return // then all is thought to come
	}
	mine := map[string]bool{}
	for i := range e.req.Items {
		mine[itemKey(&e.req.Items[i])[:itemPrefix]] = true
	}
	for _, name := range names {
		if !strings.HasSuffix(name, dataEnding) || !mine[name[:min(len(name), itemPrefix)]] {
			continue
		}
		if f, err := e.tree.Reopen(name); err == nil {
			e.kept[name] = place.Allocated(f)
			e.held.Add(e.kept[name])
			f.Close()
		}
	}
	for p, r := range e.before.files {
		if r.reusable() && e.before.unchanged(e.tree, r) {
			e.kept["/"+p] = r.Size
			e.held.Add(r.Size)
		}
	}
}

// supported refuses what can't be done.
func supported(item *worker.Item) error {
	if item.Dir && item.URL.Scheme != "s3" {
		return fmt.Errorf("a folder can't be listed over %s; name an index file (indirect) or an archive: %w", item.URL.Scheme, errdefs.ErrInvalidArgument)
	}
	return nil
}
