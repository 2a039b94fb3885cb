// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/containerd/errdefs"

	"github.com/sedna-io/containerd-shim-sedna/storage/place"
	"github.com/sedna-io/containerd-shim-sedna/storage/source"
)

// whole fetches a small object by one plain request.
func (e *engine) whole(ctx context.Context, j job) error {
	for tries := 1; ; tries++ {
		f, err := e.wholeOnce(ctx, &j)
		if err == nil {
			e.whenListed(func(context.Context) error { return itemError(j.item, e.placeFile(&j, f)) })
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if source.IsChanged(err) || errors.Is(err, errBig) {
			e.retract(max(j.obj.Size, 0))
			j.obj.Size, j.obj.Validator = source.Unknown, ""
			return itemError(j.item, e.open(ctx, j))
		}
		wait, again := e.retry.Wait(ctx, err, tries, e.fetched.Load() > 0)
		if !again {
			return itemError(j.item, source.Tried(err, tries))
		}
		e.tuner.failed(err)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(wait):
		}
	}
}

// staged is a whole file in .sedna.
type staged struct {
	name   string
	info   place.Info
	digest string
}

// wholeOnce returns the file in .sedna, or nothing.
func (e *engine) wholeOnce(ctx context.Context, j *job) (*staged, error) {
	j.state.attempts.Add(1)
	ctx, dog := watch(ctx, e.retry.Stall)
	defer dog.stop()
	out := &staged{name: "file-" + strconv.FormatInt(e.names.Add(1), 36)}
	n, err := e.copyWhole(ctx, dog, j, out)
	if err == nil {
		return out, nil
	}
	e.uncount(j, n)
	if discarded := e.tree.Discard(out.name); discarded != nil {
		return nil, discarded
	}
	if errors.Is(context.Cause(ctx), errStall) {
		err = source.Stalled(e.retry.Stall)
	}
	return nil, err
}

func (e *engine) copyWhole(ctx context.Context, dog *watchdog, j *job, out *staged) (n int64, err error) {
	var sum hash.Hash
	if j.item.Digest != "" {
		sum = sha256.New()
	}
	var body io.Reader = eofReader{}
	var offered source.Checksum
	if j.obj.Size != 0 {
		end := int64(-1)
		if j.obj.Size == source.Unknown {
			end = wholeSize
		}
		reply, err := j.src.Open(ctx, j.obj, 0, end)
		if err != nil {
			return 0, err
		}
		defer reply.Body.Close()
		e.tuner.asked()
		if err := e.learnSize(j, reply); err != nil {
			return 0, err
		}
		if reply.Offset != 0 || reply.Size >= 0 && reply.Length >= 0 && reply.Length != reply.Size {
			return 0, &source.Error{Kind: errdefs.ErrDataLoss, Transient: true, Why: "the server sent a part where the whole was asked for"}
		}
		body, offered = reply.Body, reply.Sum
	}
	in := inflow{body: body}
	check := offered.Hash()
	buf := getBuffer()
	defer putBuffer(buf)
	var f *os.File
	defer func() {
		if f != nil {
			f.Close()
		}
	}()
	for n < j.obj.Size || f == nil {
		got, err := e.fill(ctx, dog, &in, (*buf)[:min(bufferSize, j.obj.Size-n)])
		if err != nil && !errors.Is(err, io.EOF) {
			return n, err
		}
		if got == 0 && n < j.obj.Size {
			return n, &source.Error{
				Kind: errdefs.ErrUnavailable, Transient: true, Why: fmt.Sprintf("the file ended after %d of %d bytes", n, j.obj.Size),
			}
		}
		if f == nil {
			if f, err = e.tree.Create(out.name); err != nil {
				return n, e.space.explain(err)
			}
		}
		for _, h := range []hash.Hash{sum, check} {
			if h != nil {
				h.Write((*buf)[:got])
			}
		}
		if _, err := f.Write((*buf)[:got]); err != nil {
			return n, e.space.explain(fmt.Errorf("write a partial file: %w", err))
		}
		n += int64(got)
		e.count(j, int64(got))
	}
	if extra, _ := io.ReadFull(body, make([]byte, 1)); extra > 0 {
		return n, &source.Error{Kind: errdefs.ErrDataLoss, Transient: true, Why: fmt.Sprintf("the file is longer than the %d bytes that were announced", j.obj.Size)}
	}
	if !offered.Matches(check) {
		return n, errDamaged
	}
	if sum != nil {
		out.digest = "sha256:" + hex.EncodeToString(sum.Sum(nil))
		if out.digest != j.item.Digest {
			return n, wrongDigest(out.digest, j.item.Digest)
		}
	}
	out.info, err = place.InfoOf(f)
	return n, err
}

// errDamaged is for content that isn't what its source says it has.
var errDamaged = &source.Error{
	Kind: errdefs.ErrDataLoss, Transient: true, Why: "the data doesn't match the checksum that the server has of it",
	Hint: "it was damaged on the way or at the source",
}

// errBig is for an object that turns out to be no small one, or to be one that
// only a transfer can judge.
var errBig = errors.New("not a small object")

// learnSize takes an object's size from its reply where the source didn't list it.
func (e *engine) learnSize(j *job, reply *source.Reply) error {
	if j.obj.Size != source.Unknown {
		return nil
	}
	if reply.Size < 0 || reply.Size > wholeSize || reply.Length >= 0 && reply.Length != reply.Size || reply.Page {
		return errBig
	}
	j.obj.Size, j.obj.Validator = reply.Size, reply.Validator
	return e.announce(reply.Size)
}

type eofReader struct{}

func (eofReader) Read([]byte) (int, error) { return 0, io.EOF }

func wrongDigest(got, want string) *source.Error {
	return &source.Error{
		Kind: errdefs.ErrDataLoss, Why: fmt.Sprintf("its digest is %s and not %s", got, want),
		Hint: "the file at the source isn't the one expected, or the annotation's digest is wrong",
	}
}

// placeFile gives a whole file its name, for good.
func (e *engine) placeFile(j *job, f *staged) error {
	if err := e.claim(j, j.path); err != nil {
		return err
	}
	if err := e.tree.Publish(f.name, j.path); err != nil {
		return e.space.explain(err)
	}
	if f.digest != "" {
		j.state.digest.Store(&f.digest)
	}
	err := e.journal.add(record{
		Path: j.path, Size: f.info.Size, MTime: f.info.MTime, Inode: f.info.Inode,
		Validator: j.obj.Validator, Digest: f.digest,
	})
	if err != nil {
		return err
	}
	e.files.Add(1)
	j.placed()
	return nil
}

// claim says that an item places a path, and finds another that did.
func (e *engine) claim(j *job, p string) error {
	if len(e.req.Items) < 2 {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if other, ok := e.owners[p]; ok && other != j.index {
		return &source.Error{
			Kind: errdefs.ErrAlreadyExists,
			Why:  fmt.Sprintf("%q comes from %s too", p, e.req.Items[other].URL),
			Hint: "give one of them another mount",
		}
	}
	e.owners[p] = j.index
	return nil
}
