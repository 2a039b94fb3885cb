// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"hash/maphash"
	"io"
	"net/url"
	"path"
	"strings"

	"github.com/containerd/errdefs"

	"github.com/sedna-io/containerd-shim-sedna/storage/place"
	"github.com/sedna-io/containerd-shim-sedna/storage/plan"
	"github.com/sedna-io/containerd-shim-sedna/storage/source"
	"github.com/sedna-io/containerd-shim-sedna/storage/source/ranged"
	"github.com/sedna-io/containerd-shim-sedna/storage/source/s3"
	"github.com/sedna-io/containerd-shim-sedna/storage/source/web"
	"github.com/sedna-io/containerd-shim-sedna/storage/worker"
)

const (
	maxIndex = 128 << 20
	maxLines = 1_000_000
)

// index is a source of the files that an index file names, and of the index
// file itself. The file is text:
//
//	# comments and blank lines don't count
//	s3://bucket/base        the first other line is the base
//	images/1.jpg            each further line is a key below it
type index struct {
	source.Source // of the index file
	network       *ranged.Network
	item          *worker.Item
	files         source.Source // of the keys, once List has read the base
}

// List implements source.Source. The index file comes first, with the path "".
func (x *index) List(ctx context.Context, yield func(source.Object) error) error {
	var file source.Object
	err := x.Source.List(ctx, func(o source.Object) error {
		if file = o; o.Path != "" {
			return badIndex("the URL names a folder and no index file")
		}
		return nil
	})
	if err != nil {
		return err
	}
	var text []byte
	err = x.network.Retry.Do(ctx, func(ctx context.Context) error {
		text, file, err = readIndex(ctx, x.Source, file)
		return err
	})
	if err != nil {
		return err
	}
	base, keys, err := parseIndex(text)
	if err != nil {
		return err
	}
	if x.files, err = x.open(base); err != nil {
		return err
	}
	if err := yield(file); err != nil {
		return err
	}
	own := path.Base(target(x.item, file))
	for _, key := range keys {
		if key == own || strings.HasPrefix(key, own+"/") {
			return badIndex("it names %q, which is its own place", key)
		}
		o := source.Object{Path: key, Key: key, Size: source.Unknown}
		if base.s3.Host != "" {
			o.Key = join(strings.TrimSuffix(base.s3.Path, "/"), key)
		}
		if err := yield(o); err != nil {
			return err
		}
	}
	return nil
}

// Open implements source.Source.
func (x *index) Open(ctx context.Context, o source.Object, off, end int64) (*source.Reply, error) {
	if o.Path == "" {
		return x.Source.Open(ctx, o, off, end)
	}
	return x.files.Open(ctx, o, off, end)
}

// open returns the source of the keys. Credentials are for the service that
// has the index, and for no other that it may name.
func (x *index) open(base baseURL) (source.Source, error) {
	own := x.item.URL
	if base.web == nil {
		if own.Scheme != "s3" {
			return nil, badIndex("its base is on S3 and the index isn't, so that no endpoint is known for it")
		}
		d := x.item.Download
		d.URL, d.Dir = base.s3, true
		return s3.New(x.network, d, x.item.Credentials)
	}
	c := plan.Credentials{}
	if base.web.Scheme == own.Scheme && strings.EqualFold(base.web.Host, own.Host) {
		c = x.item.Credentials
	}
	return web.Below(x.network, base.web.String(), c)
}

func readIndex(ctx context.Context, src source.Source, file source.Object) ([]byte, source.Object, error) {
	reply, err := src.Open(ctx, file, 0, -1)
	if err != nil {
		return nil, file, err
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(io.LimitReader(reply.Body, maxIndex+1))
	switch {
	case err != nil:
		return nil, file, err
	case len(text) > maxIndex:
		return nil, file, badIndex("it is larger than 128 MiB")
	case reply.Unbounded:
		return nil, file, &source.Error{Kind: errdefs.ErrDataLoss, Why: "the server doesn't say how long the index file is"}
	}
	// What is stored is what was read, or the fetch of it will say so.
	file.Size, file.Validator = int64(len(text)), reply.Validator
	return text, file, nil
}

// parseIndex reads an index file.
func parseIndex(text []byte) (base baseURL, keys []string, err error) {
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 64<<10)
	seen, seed := map[uint64]struct{}{}, maphash.MakeSeed()
	n, based := 0, false
	for lines.Scan() {
		n++
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if !based {
			if base, err = parseBase(line); err != nil {
				return base, nil, err
			}
			based = true
			continue
		}
		if err := place.CheckPath(line); err != nil {
			return base, nil, badIndex("line %d: %s", n, strings.TrimSuffix(err.Error(), ": "+errdefs.ErrInvalidArgument.Error()))
		}
		if len(keys) == maxLines {
			return base, nil, badIndex("it has more than %d lines", maxLines)
		}
		h := maphash.String(seed, line)
		if _, twice := seen[h]; twice {
			continue
		}
		seen[h] = struct{}{}
		keys = append(keys, line)
	}
	switch {
	case lines.Err() != nil:
		return base, nil, badIndex("line %d is longer than 64 KiB", n+1)
	case !based:
		return base, nil, badIndex("it names no base URL")
	case len(keys) == 0:
		return base, nil, badIndex("it names no files")
	}
	return base, keys, nil
}

// baseURL is an index's base: a folder, so that it may end with a slash or be
// a host's root. One of its fields is set.
type baseURL struct {
	s3  plan.URL
	web *url.URL
}

// parseBase reads a base URL. It may hold secrets: no error shows it.
func parseBase(line string) (baseURL, error) {
	scheme, _, _ := strings.Cut(line, "://")
	switch strings.ToLower(scheme) {
	case "s3", "obs":
		u, err := plan.ParseURL(line)
		if err != nil {
			return baseURL{}, badIndex("the first line is no base URL: %v", err)
		}
		return baseURL{s3: u}, nil
	case "http", "https":
		u, err := url.Parse(line)
		if err != nil || u.Host == "" {
			return baseURL{}, badIndex("the first line is no base URL")
		}
		return baseURL{web: u}, nil
	}
	return baseURL{}, badIndex("the first line is no base URL of s3, http or https")
}

func badIndex(format string, args ...any) *source.Error {
	return &source.Error{
		Kind: errdefs.ErrInvalidArgument, Why: "the index file can't be used: " + fmt.Sprintf(format, args...),
		Hint: "its first line is a base URL and each further line a file below it",
	}
}
