// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/sedna-io/containerd-shim-sedna/storage/source"
)

// mode is what is known of how a server serves an object.
type mode int

const (
	// probing: the first reply will tell. One request at a time.
	probing mode = iota
	// parallel: parts may be asked for in any number.
	parallel
	// stream: the whole in one request, since the server knows no ranges or
	// nothing ties two replies together.
	stream
)

// part is a span to fetch, in one generation of its transfer.
type part struct {
	span        // off moves on; end may come nearer, see steal. Guarded by transfer.mu while it is out
	busy  int64 // up to where a read is under way; guarded likewise
	mode  mode  // what was known when it was asked for
	gen   int
	tries int // in a row that brought nothing

	flushed int64 // up to where the disk was told to begin; its reader's alone
}

// toEnd is the end of a part that ends where the body does.
const toEnd = 1<<63 - 1

// transfer is an object on its way into a partial file. When the object
// changes, or what has arrived can't be kept, it starts over: a new generation.
type transfer struct {
	job
	file *os.File
	log  *partLog // nil where nothing ties a later run to this one

	// What follows is the scheduler's, guarded by engine.mu.
	mode      mode
	todo      spans         // nobody's yet
	retries   []*part       // their wait is over
	waiting   int           // parts whose wait isn't
	out       []*part       // being fetched
	again     bool          // starts over once no part is out
	tries     int           // whole generations in a row that brought nothing new
	best      int64         // the most bytes that one generation brought
	announced int64         // its size among the expected bytes, or source.Unknown
	resumed   bool          // some of it is an earlier run's
	pause     time.Duration // before it starts over
	ctx       context.Context
	cancel    context.CancelCauseFunc // ends the parts of this generation

	readers int64 // parts that may be out at once; fixed

	mu    sync.Mutex
	moved *sync.Cond // have, size, gen or failed changed
	have  spans      // guarded by mu
	size  int64      // or source.Unknown; guarded by mu
	gen   int        // guarded by mu
	over  bool       // nothing more will come; guarded by mu
	// allocated is what the file was given of the disk, reserved what of that
	// is still to be filled; guarded by mu
	allocated, reserved int64

	// holes is held while what was unpacked is given back to the disk, so that
	// the next generation's bytes never are.
	holes sync.Mutex
	given int64 // up to where; guarded by holes

	claimsPage bool // of the reply that brings the first byte; its reader's alone
	// unannounced is how many bytes of this generation nobody announced; its one
	// reader's, or the scheduler's while no part is out.
	unannounced int64
	consumer    *consumer // reads along; nil if nobody does
}

// errAgain ends the parts of a generation that is given up, and its followers.
var errAgain = errors.New("the transfer starts over")

func newTransfer(j job, readers int64) *transfer {
	t := &transfer{job: j, size: j.obj.Size, readers: readers}
	t.moved = sync.NewCond(&t.mu)
	return t
}

// take returns a part to fetch, of at most n bytes, if there is one now. It
// takes from another that is out what would take that one longer than late.
func (t *transfer) take(n, late int64) *part {
	p := t.choose(n, late)
	if p != nil {
		t.out = append(t.out, p)
	}
	return p
}

func (t *transfer) choose(n, late int64) *part {
	if t.again {
		return nil
	}
	if len(t.retries) > 0 {
		p := t.retries[0]
		t.retries = t.retries[1:]
		return p
	}
	if t.mode != parallel && (len(t.out) > 0 || t.waiting > 0) {
		return nil
	}
	switch t.mode {
	case probing:
		n = firstPart
	case stream:
		n = toEnd
	}
	if s, ok := t.todo.take(n); ok {
		return &part{span: s, mode: t.mode, gen: t.generation()}
	}
	if t.mode == parallel {
		return t.steal(late)
	}
	return nil
}

// steal cuts the longest part that is out in two and returns the second half:
// the last ones of a transfer end together, and a slow server is left early.
func (t *transfer) steal(late int64) *part {
	t.mu.Lock()
	defer t.mu.Unlock()
	var victim *part
	for _, p := range t.out {
		if p.end != toEnd && (victim == nil || p.len() > victim.len()) {
			victim = p
		}
	}
	if victim == nil || victim.len() < late {
		return nil
	}
	middle := max(victim.busy, victim.off+victim.len()/2)
	if victim.end-middle < minPart/2 {
		return nil
	}
	p := &part{span: span{middle, victim.end}, mode: parallel, gen: t.gen}
	victim.end = middle
	return p
}

// ahead says where the next read of a part goes and how long it is, and marks
// it as under way.
func (t *transfer) ahead(p *part, most int) (off int64, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n = int(min(int64(most), p.end-p.off, t.grain()))
	p.busy = p.off + int64(n)
	return p.off, n
}

const (
	// lost is the part of a file that a killed process may have read and not
	// written: a twenty-fifth, of the twentieth that another run may fetch again.
	lost = 25
	// leastGrain, in bytes, is what it may hold of the smallest file.
	leastGrain = 16 << 10
)

// grain is how many bytes a part may read before it writes and notes them: all
// that are out together hold little of the whole. Large files have no need of
// it. Callers hold mu.
func (t *transfer) grain() int64 {
	if t.size < 0 {
		return bufferSize
	}
	parts := min(t.readers, (t.size+minPart-1)/minPart)
	return max(leastGrain, t.size/lost/max(parts, 1)&^(4<<10-1))
}

// left is what of a part is still to come.
func (t *transfer) left(p *part) span {
	t.mu.Lock()
	defer t.mu.Unlock()
	return p.span
}

// back takes a part off the list of those that are out.
func (t *transfer) back(p *part) {
	if i := slices.Index(t.out, p); i >= 0 {
		t.out = slices.Delete(t.out, i, i+1)
	}
}

// idle says that all parts have come.
func (t *transfer) idle() bool {
	return len(t.out) == 0 && t.waiting == 0 && !t.again && len(t.todo) == 0 && len(t.retries) == 0
}

func (t *transfer) generation() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.gen
}

// there is how many bytes are in the file.
func (t *transfer) there() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.have.sum()
}

// total is the size, or source.Unknown.
func (t *transfer) total() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.size
}

func (t *transfer) setSize(n int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.size = n
	t.moved.Broadcast()
}

// wrote notes that a part's next n bytes stand in the file, and in the log.
func (t *transfer) wrote(p *part, n int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	front := t.have.front()
	t.have.add(span{p.off, p.off + n})
	p.off += n
	if t.have.front() != front {
		t.moved.Broadcast()
	}
}

// reserve notes that the file has so many bytes of the disk, and returns how
// many more of them are to be filled than before.
func (t *transfer) reserve(size int64) (more int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.allocated = size
	left := max(size-t.have.sum(), 0)
	more, t.reserved = left-t.reserved, left
	return more
}

// use takes bytes that have come out of what is reserved.
func (t *transfer) use(n int64) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	n = min(n, t.reserved)
	t.reserved -= n
	return n
}

// restart begins a new generation and returns how many bytes it gives up.
func (t *transfer) restart() int64 {
	t.holes.Lock()
	defer t.holes.Unlock()
	t.given = 0
	t.mu.Lock()
	defer t.mu.Unlock()
	lost := t.have.sum()
	t.have = nil
	t.gen++
	t.moved.Broadcast()
	return lost
}

// end lets followers go that wait for more.
func (t *transfer) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
	t.moved.Broadcast()
}

// follower reads a transfer's bytes in order as they arrive, from the page
// cache. It ends with errAgain when the transfer starts over.
type follower struct {
	t   *transfer
	gen int
	off int64
}

func (t *transfer) follow() *follower { return &follower{t: t, gen: t.generation()} }

// Read implements io.Reader.
func (f *follower) Read(p []byte) (int, error) {
	ready, err := f.wait()
	if err != nil {
		return 0, err
	}
	n, err := f.t.file.ReadAt(p[:min(int64(len(p)), ready)], f.off)
	f.off += int64(n)
	if n > 0 {
		return n, nil
	}
	return 0, err
}

// wait returns how many bytes can be read at once.
func (f *follower) wait() (int64, error) {
	t := f.t
	t.mu.Lock()
	defer t.mu.Unlock()
	for {
		front := t.have.front()
		switch {
		case t.gen != f.gen:
			return 0, errAgain
		case t.over:
			return 0, context.Canceled
		case front > f.off:
			return front - f.off, nil
		case t.size >= 0 && f.off >= t.size:
			return 0, io.EOF
		}
		t.moved.Wait()
	}
}

// close lets go of the files, which stay for the next run.
func (t *transfer) close() {
	t.end()
	t.file.Close()
	if t.log != nil {
		t.log.close()
	}
}

// page says whether a reply that claims to be a web page begins like one.
func (t *transfer) page(data []byte) bool {
	return t.claimsPage && t.item.Digest == "" && looksLikePage(data)
}

func looksLikePage(data []byte) bool {
	head := bytes.ToLower(bytes.TrimLeft(data[:min(len(data), 512)], "\xef\xbb\xbf \t\r\n"))
	return bytes.HasPrefix(head, []byte("<!doctype html")) || bytes.HasPrefix(head, []byte("<html"))
}

// version is what a part log binds to.
func (t *transfer) version() objectVersion {
	return objectVersion{Key: t.obj.Key, Size: t.total(), Validator: t.obj.Validator, Digest: t.item.Digest}
}

// object is what to ask the source for: the version that the first reply
// named, or any.
func (t *transfer) object() source.Object {
	o := t.obj
	o.Size = t.total()
	return o
}
