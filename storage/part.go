// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"

	"github.com/sedna-io/containerd-shim-sedna/storage/source"
)

// errNoRanges says that the server sent the whole where a part was wanted.
var errNoRanges = errors.New("the server ignores ranges")

// maxRestarts is how often an object may change, or begin from its first byte,
// without getting further than before.
const maxRestarts = 4

// part fetches one part and settles what follows from how it went.
func (e *engine) part(ctx context.Context, t *transfer, p *part) error {
	e.mu.Lock()
	gctx, o := t.ctx, t.object()
	e.mu.Unlock()
	began := p.off
	p.flushed = p.off
	err := e.fetch(gctx, t, p, o)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	// A drip is no progress: it would go on for ever.
	return e.settle(ctx, t, p, p.off-began >= minFed, err)
}

// fetch reads a part into the file and moves p.off as far as it got.
func (e *engine) fetch(ctx context.Context, t *transfer, p *part, o source.Object) error {
	ctx, dog := watch(ctx, e.retry.Stall)
	defer dog.stop()
	err := e.request(ctx, dog, t, p, o)
	if err != nil && errors.Is(context.Cause(ctx), errStall) {
		return source.Stalled(e.retry.Stall)
	}
	if err != nil && errors.Is(context.Cause(ctx), errAgain) {
		return errAgain
	}
	return err
}

func (e *engine) request(ctx context.Context, dog *watchdog, t *transfer, p *part, o source.Object) error {
	t.state.attempts.Add(1)
	want := t.left(p)
	off, end := want.off, want.end
	if p.mode == stream {
		off, end = 0, -1 // without a range: the server may not know them
	}
	reply, err := t.src.Open(ctx, o, off, end)
	if err != nil {
		return err
	}
	defer reply.Body.Close()
	dog.fed(minFed)
	e.tuner.asked()
	e.look(0)
	if err := e.judge(t, p, reply); err != nil {
		return err
	}
	return e.receive(ctx, dog, t, p, reply)
}

// judge compares a reply with what is known of the object, or learns it.
func (e *engine) judge(t *transfer, p *part, reply *source.Reply) error {
	if reply.Offset != p.off {
		return errNoRanges
	}
	if p.mode == parallel {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.expect(t, reply.Size); err != nil {
		return err
	}
	t.claimsPage = reply.Page
	t.obj.Validator = reply.Validator
	switch tied := reply.Validator != "" || t.item.Digest != ""; {
	case reply.Ranged && reply.Size >= 0 && tied:
		e.goParallel(t, p, reply.Size)
		return e.prepare(t)
	case reply.Ranged && reply.Length != reply.Size:
		return errNoRanges // nothing ties this part to the next one's reply
	case reply.Unbounded && t.item.Digest == "":
		return &source.Error{
			Kind: errdefs.ErrDataLoss, Why: "the server doesn't say how long the file is, so that a part can't be told from the whole",
			Hint: "give the file's digest",
		}
	}
	t.mode, p.mode, t.todo = stream, stream, nil
	p.end = toEnd
	if reply.Size >= 0 {
		p.end = reply.Size
	}
	t.setSize(reply.Size)
	return nil
}

// goParallel opens an object of known size to as many requests as help.
// Callers hold mu.
func (e *engine) goParallel(t *transfer, p *part, size int64) {
	t.mode, p.mode = parallel, parallel
	p.end = min(p.end, size)
	t.todo = nil
	t.todo.add(span{p.end, size})
	t.setSize(size)
	e.changed.Broadcast()
}

// receive brings a body to the file until the part, or the body, ends.
func (e *engine) receive(ctx context.Context, dog *watchdog, t *transfer, p *part, reply *source.Reply) error {
	buf := getBuffer()
	defer putBuffer(buf)
	in := inflow{body: reply.Body, into: e.pours(reply)}
	for {
		off, want := t.ahead(p, len(*buf))
		if want <= 0 {
			return nil
		}
		n, poured, err := e.bring(ctx, dog, &in, (*buf)[:want], t.file, off)
		if poured {
			if failed := e.poured(t, p, n); failed != nil {
				return failed
			}
		} else if n > 0 {
			if off == 0 && t.page((*buf)[:n]) {
				return errPage
			}
			if failed := e.keep(t, p, (*buf)[:n]); failed != nil {
				return failed
			}
		}
		if errors.Is(err, io.EOF) {
			return e.ended(t, p)
		}
		if err != nil {
			return err
		}
	}
}

// inflow is a body that is being read.
type inflow struct {
	body io.Reader
	into source.Pourer // nil where nothing can be poured
	deep bool          // more has arrived than one reads at once
}

// deep is how much must wait in a connection for the processor to be what is
// short: then it pays to have data take the shorter way, at small costs for each
// piece. Otherwise it's checked as it is now and for good, see partLog. Tests pour all.
var deep = 128 << 10

// pours is how a reply's bytes get into a file without passing through here, nil
// if they can't. A disk is slower than the longer way, and what it holds after a
// power loss must prove itself.
func (e *engine) pours(reply *source.Reply) source.Pourer {
	if !e.space.memory || reply.Size < 0 || reply.Length < 0 {
		return nil
	}
	into, _ := reply.Body.(source.Pourer)
	return into
}

// bring brings a body's next bytes into the file itself, or else into the buffer.
func (e *engine) bring(ctx context.Context, dog *watchdog, in *inflow, buf []byte, f *os.File, off int64) (n int, poured bool, err error) {
	if in.into == nil || !in.deep || off == 0 { // the first bytes are looked at
		n, err = e.fill(ctx, dog, in, buf)
		return n, false, err
	}
	n, poured, err = in.into.Pour(f, off, buf)
	in.deep = n >= deep
	dog.fed(int64(n))
	e.moved(int64(n))
	if late := e.speed.wait(ctx, dog, n); err == nil {
		err = late
	}
	return n, poured, e.space.explain(err)
}

// fill reads until the buffer is full. Few large writes cost less than many.
func (e *engine) fill(ctx context.Context, dog *watchdog, in *inflow, buf []byte) (int, error) {
	have := 0
	in.deep = false
	for have < len(buf) {
		n, err := in.body.Read(buf[have:])
		have += n
		in.deep = in.deep || n >= deep
		dog.fed(int64(n))
		e.moved(int64(n))
		// The last bytes come with the end, and are to be paid for as well.
		if late := e.speed.wait(ctx, dog, n); err == nil {
			err = late
		}
		if err != nil {
			return have, err
		}
	}
	return have, nil
}

// moved notes bytes that came from the network.
func (e *engine) moved(n int64) {
	e.tuner.moved(n)
	e.look(n)
}

// look takes a look at the first connections, and allows more if they aren't
// enough.
func (e *engine) look(n int64) {
	more := e.tuner.first.next(time.Now(), n)
	if more == 0 {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.tuner.now.Store(min(more, e.tuner.max))
	e.changed.Broadcast()
}

// keep writes data where it belongs and notes that it's there.
func (e *engine) keep(t *transfer, p *part, data []byte) error {
	if p.mode == stream && t.announced < 0 {
		t.unannounced += int64(len(data))
		if err := e.space.more(int64(len(data)), nothing); err != nil {
			return err
		}
	}
	if _, err := t.file.WriteAt(data, p.off); err != nil {
		return e.space.explain(err)
	}
	if err := t.log.wrote(p.off, data); err != nil {
		return e.space.explain(err)
	}
	e.there(t, p, int64(len(data)))
	return nil
}

// poured notes that a part's next n bytes came into the file by themselves.
func (e *engine) poured(t *transfer, p *part, n int) error {
	if n == 0 {
		return nil
	}
	if err := t.log.poured(t.file, p.off, int64(n)); err != nil {
		return e.space.explain(err)
	}
	e.there(t, p, int64(n))
	return nil
}

// there counts a part's next n bytes, which are in the file and in the log.
func (e *engine) there(t *transfer, p *part, n int64) {
	t.wrote(p, n)
	e.held.Add(-t.use(n))
	e.count(&t.job, n)
	e.writeBehind(t, p)
}

// behind is how many bytes of a part may wait for the disk.
const behind = 16 << 20

// writeBehind has the disk begin with what has arrived, so that the sync at the
// end finds little to do and dirty pages don't fill the worker's memory. The
// pages stay cached: the sandbox reads them next, and who needs the memory
// more may take it, since they are clean.
func (e *engine) writeBehind(t *transfer, p *part) {
	if e.space.memory || p.off-p.flushed < behind {
		return
	}
	// It is only a hint: what fails here, the sync at the end will tell.
	_ = unix.SyncFileRange(int(t.file.Fd()), p.flushed, p.off-p.flushed, unix.SYNC_FILE_RANGE_WRITE)
	p.flushed = p.off
}

// ended judges the end of a body.
func (e *engine) ended(t *transfer, p *part) error {
	left := t.left(p)
	switch {
	case left.len() == 0:
		return nil
	case p.mode == stream && left.end == toEnd:
		t.setSize(p.off)
		p.end = p.off
		return nil
	case p.mode == parallel:
		return nil // a server may send less than was asked for; the rest is asked for again
	}
	return &source.Error{
		Kind: errdefs.ErrUnavailable, Transient: true, Why: fmt.Sprintf("the file ended after %d of %d bytes", left.off, left.end),
	}
}

// settle decides what follows a part's end: more of it, another try, a new
// beginning, the transfer's end, or that of everything.
func (e *engine) settle(ctx context.Context, t *transfer, p *part, moved bool, err error) error {
	e.mu.Lock()
	t.back(p)
	if t.again || p.gen != t.generation() {
		err = errAgain
	}
	if moved {
		p.tries = 0
	}
	failure := e.decide(ctx, t, p, moved, err)
	if t.again && len(t.out) == 0 {
		e.beginAgain(ctx, t)
	}
	complete := failure == nil && t.idle()
	if complete {
		e.leave(t)
	}
	failure = itemError(t.item, failure)
	e.fail(failure) // at once, before another worker takes the next part
	e.changed.Broadcast()
	e.mu.Unlock()
	if failure != nil {
		return failure
	}
	if complete {
		return e.complete(ctx, t)
	}
	return nil
}

// decide acts on a part's error; what it returns ends everything. Callers hold mu.
func (e *engine) decide(ctx context.Context, t *transfer, p *part, moved bool, err error) error {
	if err == nil && p.off < p.end && !moved {
		err = errShort
	}
	switch {
	case err == nil:
		if p.off < p.end {
			t.todo.add(p.span)
		}
		return nil
	case errors.Is(err, errAgain):
		return nil
	case ctx.Err() != nil:
		return err
	case errors.Is(err, errNoRanges):
		t.mode = stream
		e.startOver(t, 0)
		return nil
	case source.IsChanged(err):
		if t.tries++; t.tries > maxRestarts {
			return source.Tried(err, t.tries)
		}
		_ = e.expect(t, source.Unknown) // which nothing refuses
		t.mode, t.obj.Validator, t.obj.Sum = probing, "", source.Checksum{}
		t.setSize(source.Unknown)
		e.startOver(t, 0)
		return nil
	}
	if t.mode != parallel {
		return e.retryWhole(ctx, t, p, err)
	}
	p.tries++
	wait, again := e.retry.Wait(ctx, err, p.tries, moved || t.there() > 0)
	if !again {
		return e.tooMany(t, err, p.tries)
	}
	e.tuner.failed(err)
	t.waiting++
	time.AfterFunc(wait, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if p.gen != t.generation() {
			return
		}
		t.waiting--
		t.retries = append(t.retries, p)
		e.changed.Broadcast()
	})
	return nil
}

// retryWhole tries a transfer again from its first byte. Callers hold mu.
func (e *engine) retryWhole(ctx context.Context, t *transfer, p *part, err error) error {
	if p.off >= t.best+minFed {
		t.best, t.tries = p.off, 0
	}
	t.tries++
	wait, again := e.retry.Wait(ctx, err, t.tries, t.best > 0)
	if !again {
		return e.tooMany(t, err, t.tries)
	}
	e.startOver(t, wait)
	return nil
}

// tooMany tells an error with how far it got.
func (e *engine) tooMany(t *transfer, err error, tries int) error {
	err = source.Tried(err, tries)
	var known *source.Error
	size := t.total()
	if size <= 0 || !source.IsTransient(err) || !errors.As(err, &known) {
		return err
	}
	told := *known
	told.Why += fmt.Sprintf(", with %d of %d bytes there", t.there(), size)
	return &told
}

// startOver gives up what has arrived, after a wait. Callers hold mu.
func (e *engine) startOver(t *transfer, wait time.Duration) {
	t.again = true
	t.pause = wait
	t.cancel(errAgain)
}

// beginAgain makes the new generation once no part of the old is out. Callers
// hold mu.
func (e *engine) beginAgain(ctx context.Context, t *transfer) {
	e.uncount(&t.job, t.restart())
	e.held.Add(t.reserve(t.allocated))
	e.space.less(t.unannounced, 0)
	t.unannounced = 0
	t.todo, t.retries, t.waiting = spans{{0, toEnd}}, nil, 0
	t.ctx, t.cancel = context.WithCancelCause(ctx)
	t.dropLog(e.tree)
	gen := t.generation()
	resume := func() {
		if t.generation() == gen {
			t.again = false
		}
		e.changed.Broadcast()
	}
	if t.pause == 0 {
		resume()
		return
	}
	time.AfterFunc(t.pause, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		resume()
	})
}

// leave takes a transfer off the list; it counts as finishing. Callers hold mu.
func (e *engine) leave(t *transfer) {
	for i, other := range e.transfers {
		if other == t {
			e.transfers = append(e.transfers[:i:i], e.transfers[i+1:]...)
			break
		}
	}
	e.finishing[t] = true
}

// errShort is for a part that ends properly after next to nothing: asking on and
// on would bring the file never, and the server a storm.
var errShort = &source.Error{
	Kind: errdefs.ErrDataLoss, Transient: true, Why: "the server sends less than the part that it announces",
	Hint: "the server, or a proxy before it, is at fault",
}

// errPage is for a login or error page in place of a file.
var errPage = &source.Error{
	Kind: errdefs.ErrDataLoss, Why: "the server sent a web page instead of the file",
	Hint: "check the URL in a browser: it may want a login, or show an error",
}
