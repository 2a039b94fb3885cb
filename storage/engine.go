// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sedna-io/containerd-shim-sedna/storage/place"
	"github.com/sedna-io/containerd-shim-sedna/storage/source"
	"github.com/sedna-io/containerd-shim-sedna/storage/source/ranged"
	"github.com/sedna-io/containerd-shim-sedna/storage/worker"
)

const (
	// firstPart is what is asked for before a server is known: enough for most
	// files whole, little if it has to be asked for again.
	firstPart = 4 << 20
	minPart   = 1 << 20
	// lookPart is enough for what fast connections bring until their speed is known.
	lookPart = 32 << 20
	maxPart  = 256 << 20
	// wholeSize is up to what size an object is fetched by one plain request.
	wholeSize = firstPart
	// maxQueue is how far listings may run ahead.
	maxQueue = 10_000
	// maxReady is how many files wait for the listings' end, see ready.
	maxReady = 20_000
	// maxOpen is how many transfers are open at once.
	maxOpen = 64
)

// engine fetches jobs with few connections where few are enough, and with as
// many as help where each is slow. Its workers take the next part of an open
// transfer, or else the next job, whoever's item it is.
//
//	listings -> queue -> jobs -> small: one request -> ready -> placed
//	                          -> big: transfer -> parts -> finish -> ready -> placed
type engine struct {
	tree    *place.Tree
	journal *journal
	before  *past
	retry   *source.Retry
	network *ranged.Network
	req     *worker.Request
	items   []itemState
	space   *space
	tuner   *tuner
	speed   *throttle

	cancel  context.CancelCauseFunc
	readers sync.WaitGroup // consumers
	shared  bool           // see Shared
	every   time.Duration
	watch   func([]FileProgress) // nil for nobody

	bytes, fetched, files, expected atomic.Int64
	trouble                         atomic.Pointer[string] // see troubled
	names                           atomic.Int64           // given to files of .sedna
	// held is how many bytes are on the disk that bytes doesn't count: earlier
	// runs', until their files are looked at, and reserved ones.
	held atomic.Int64

	mu        sync.Mutex
	changed   *sync.Cond
	listing   int                           // items whose listing goes on
	queue     []job                         // jobs to begin
	transfers []*transfer                   // in the order they were begun
	ready     []func(context.Context) error // placements
	active    int                           // workers at work
	finishing map[*transfer]bool            // being checked and unpacked
	err       error                         // the first failure
	owners    map[string]int                // who placed what, where archives merge
	opened    map[string]bool               // partial files by name
	kept      map[string]int64              // what earlier runs' take on the disk, and "/" + PATH of placed files; fixed
}

// next waits for something to do and for leave to do it; nil when all is done.
func (e *engine) next() func(context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	for {
		if e.err != nil || e.done() {
			return nil
		}
		if e.active < e.tuner.limit() {
			if f := e.pick(); f != nil {
				e.active++
				return f
			}
		}
		e.changed.Wait()
	}
}

func (e *engine) done() bool {
	return e.listing == 0 && e.active == 0 && len(e.finishing) == 0 &&
		len(e.queue) == 0 && len(e.transfers) == 0 && len(e.ready) == 0
}

// pick chooses the next thing to do. Callers hold mu.
func (e *engine) pick() func(context.Context) error {
	// Nothing is placed before all names are known: a conflict among them
	// must not leave half a tree. A listing that is too long to wait for is
	// checked as it goes.
	if n := len(e.ready); n > 0 && (e.listing == 0 || n > maxReady) {
		f := e.ready[n-1]
		e.ready = e.ready[:n-1]
		return f
	}
	for _, t := range e.transfers {
		if p := t.take(e.partSize(t), e.late()); p != nil {
			return func(ctx context.Context) error { return e.part(ctx, t, p) }
		}
	}
	if len(e.queue) == 0 || len(e.transfers) >= maxOpen {
		return nil
	}
	j := e.queue[0]
	e.queue = e.queue[1:]
	if len(e.queue) < maxQueue {
		e.changed.Broadcast() // a listing may wait
	}
	return func(ctx context.Context) error { return e.begin(ctx, j) }
}

// partSize is how much to ask for at once: some seconds' worth of one
// connection, and no more than its share of what is left. A part that is lost
// midway keeps what has come, and one that takes too long is stolen from, so
// that nothing speaks for small ones.
func (e *engine) partSize(t *transfer) int64 {
	n := 2 * e.tuner.perConnection()
	switch {
	case e.fetched.Load() == 0:
		n = firstPart
	case n == 0 && e.tuner.limit() <= fewS3:
		n = lookPart
	case n == 0:
		n = firstPart
	}
	n = min(n, t.todo.sum()/int64(e.tuner.limit()))
	return max(minPart, min(n, maxPart)) &^ (64<<10 - 1)
}

// late is how long a part may be when nothing else is left to do: what one
// connection brings in a tenth of a second.
func (e *engine) late() int64 { return max(2*minPart, e.tuner.perConnection()/10) }

// work does what there is to do until all is done or something failed.
func (e *engine) work(ctx context.Context) {
	for {
		f := e.next()
		if f == nil {
			return
		}
		err := f(ctx)
		e.mu.Lock()
		e.active--
		e.fail(err)
		e.changed.Broadcast()
		e.mu.Unlock()
	}
}

// fail ends the run with its first error. Callers hold mu.
func (e *engine) fail(err error) {
	if err == nil || e.err != nil {
		return
	}
	e.err = err
	e.cancel(err)
	for _, t := range e.transfers {
		t.end()
	}
	for t := range e.finishing {
		t.end()
	}
	e.changed.Broadcast()
}

// run fetches everything.
func (e *engine) run(ctx context.Context, workers int) error {
	ctx, e.cancel = context.WithCancelCause(ctx)
	defer e.cancel(nil)
	stop := context.AfterFunc(ctx, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.fail(context.Cause(ctx))
	})
	defer stop()
	var wg sync.WaitGroup
	for i := range e.req.Items {
		wg.Go(func() { e.list(ctx, i) })
	}
	for range workers {
		wg.Go(func() { e.work(ctx) })
	}
	tuned, tune := context.WithCancel(ctx)
	var tuning sync.WaitGroup
	tuning.Go(func() { e.tuner.run(tuned, e) })
	wg.Wait()
	tune()
	tuning.Wait()
	e.mu.Lock()
	for _, t := range e.transfers {
		t.close()
	}
	err := e.err
	e.mu.Unlock()
	e.readers.Wait()
	return err
}

// list queues an item's objects.
func (e *engine) list(ctx context.Context, i int) {
	item, state := &e.req.Items[i], &e.items[i]
	state.began = time.Now()
	err := func() error {
		src, err := openSource(e.network, item)
		if err != nil {
			return err
		}
		l := lister{engine: e, index: i, item: item, state: state, src: src}
		return l.list(ctx)
	}()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.listing--
	if err != nil && !errors.Is(err, errStopped) {
		e.fail(itemError(item, err))
	}
	e.changed.Broadcast()
}

// errStopped ends a listing after another failure.
var errStopped = errors.New("stopped")

// enqueue adds a job, and waits while there are enough.
func (e *engine) enqueue(j job) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	for len(e.queue) >= maxQueue && e.err == nil {
		e.changed.Wait()
	}
	if e.err != nil {
		return errStopped
	}
	e.queue = append(e.queue, j)
	e.changed.Signal()
	return nil
}

// whenListed has f run when names may appear.
func (e *engine) whenListed(f func(context.Context) error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ready = append(e.ready, f)
	e.changed.Broadcast()
}

// troubled notes why something is tried again, until data comes: whoever ends
// the run meanwhile can say what it waited for.
func (e *engine) troubled(err error) {
	text := oneLine(err.Error())
	e.trouble.Store(&text)
}

// count adds to what has arrived.
func (e *engine) count(j *job, n int64) {
	if e.trouble.Load() != nil {
		e.trouble.Store(nil)
	}
	e.bytes.Add(n)
	e.fetched.Add(n)
	j.state.bytes.Add(n)
	j.state.fetched.Add(n)
}

// uncount takes back what has to be fetched again.
func (e *engine) uncount(j *job, n int64) {
	e.bytes.Add(-n)
	j.state.bytes.Add(-n)
}

// found adds what an earlier run fetched.
func (e *engine) found(j *job, n int64) {
	e.bytes.Add(n)
	j.state.bytes.Add(n)
}
