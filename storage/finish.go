// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"

	"github.com/sedna-io/containerd-shim-sedna/storage/place"
	"github.com/sedna-io/containerd-shim-sedna/storage/plan"
	"github.com/sedna-io/containerd-shim-sedna/storage/source"
)

// consumer reads a transfer's bytes as they arrive, so that checking and
// unpacking are done soon after the last has come.
type consumer struct {
	done   chan struct{}
	digest string  // valid once done is closed
	tree   *unpack // likewise; nil unless an archive is unpacked on the way
	err    error
	sound  bool // likewise: it matches the source's own checksum, if there is one
}

// consume starts what reads along; nil if nobody needs to.
func (e *engine) consume(ctx context.Context, t *transfer) *consumer {
	inOrder := t.item.Archive != plan.NoArchive && t.item.Archive != plan.Zip
	if t.item.Digest == "" && !inOrder && t.obj.Sum.Hash() == nil {
		return nil
	}
	c := &consumer{done: make(chan struct{})}
	e.readers.Go(func() {
		defer close(c.done)
		for {
			e.mu.Lock()
			offered := t.obj.Sum // of this generation
			e.mu.Unlock()
			err := e.consumeOnce(ctx, t, c, inOrder, offered)
			if errors.Is(err, errAgain) {
				continue
			}
			if c.err == nil {
				c.err = err
			}
			return
		}
	})
	return c
}

func (e *engine) consumeOnce(ctx context.Context, t *transfer, c *consumer, unpacking bool, offered source.Checksum) error {
	sum := sha256.New()
	from := t.follow()
	var in io.Reader = from
	if t.item.Digest != "" {
		in = io.TeeReader(in, sum)
	}
	check := offered.Hash()
	if check != nil {
		in = io.TeeReader(in, check)
	}
	if unpacking {
		c.tree.discard(e)
		c.tree, c.err = e.unpackStream(ctx, t, from, in)
		if errors.Is(c.err, errAgain) {
			return errAgain
		}
		if c.err != nil && t.item.Digest == "" {
			// With a digest the whole is read: that the archive isn't the one
			// expected says more than that it is damaged.
			e.mu.Lock()
			defer e.mu.Unlock()
			e.fail(itemError(t.item, c.err))
			return c.err
		}
	}
	buf := getBuffer()
	defer putBuffer(buf)
	if _, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{in}, *buf); err != nil {
		return err
	}
	c.sound = offered.Matches(check)
	if t.item.Digest != "" {
		c.digest = "sha256:" + hex.EncodeToString(sum.Sum(nil))
	}
	return nil
}

// complete finishes a transfer whose bytes are all there. It may take long:
// meanwhile its worker's place is another's.
func (e *engine) complete(ctx context.Context, t *transfer) error {
	e.mu.Lock()
	e.active--
	e.changed.Broadcast()
	e.mu.Unlock()
	err := e.finish(ctx, t)
	if err != nil {
		t.close()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.active++
	delete(e.finishing, t)
	e.changed.Broadcast()
	return itemError(t.item, err)
}

// finish checks a transfer and has it placed.
func (e *engine) finish(ctx context.Context, t *transfer) error {
	if err := t.file.Truncate(t.total()); err != nil {
		return fmt.Errorf("size a partial file: %w", err)
	}
	digest := ""
	if c := t.consumer; c != nil {
		<-c.done
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if digest = c.digest; digest != t.item.Digest && digest != "" {
			c.tree.discard(e)
			return e.mismatch(ctx, t, wrongDigest(digest, t.item.Digest))
		}
		if c.err == nil && !c.sound {
			c.tree.discard(e)
			return e.mismatch(ctx, t, errDamaged)
		}
		if c.err != nil {
			t.close()
			c.tree.discard(e)
			return e.space.explain(c.err)
		}
	}
	if t.item.Archive != plan.NoArchive {
		return e.finishArchive(ctx, t, digest)
	}
	if !e.space.memory {
		if err := unix.Fdatasync(int(t.file.Fd())); err != nil {
			return e.space.explain(fmt.Errorf("sync a file: %w", err))
		}
	}
	info, err := place.InfoOf(t.file)
	t.close()
	if err != nil {
		return err
	}
	e.whenListed(func(context.Context) error {
		err := e.placeFile(&t.job, &staged{t.dataName(), info, digest})
		if err == nil {
			err = e.tree.Discard(t.logName())
		}
		return itemError(t.item, err)
	})
	return nil
}

// mismatch starts a transfer over where its parts may be of two versions,
// another run's or damaged; else the source has another file than was asked for.
func (e *engine) mismatch(ctx context.Context, t *transfer, err *source.Error) error {
	suspect := t.resumed || t.obj.Validator == "" && t.mode == parallel || err == errDamaged && t.mode != stream
	if !suspect {
		t.close()
		return errors.Join(err, e.tree.Discard(t.dataName()), e.tree.Discard(t.logName()))
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	t.resumed = false
	t.mode, t.obj.Validator, t.tries = stream, "", 0
	e.beginAgain(ctx, t)
	t.consumer = e.consume(ctx, t)
	e.transfers = append(e.transfers, t)
	e.changed.Broadcast()
	return nil
}
