// SPDX-License-Identifier: Apache-2.0

package s3

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/containerd/errdefs"

	"github.com/sedna-io/containerd-shim-sedna/storage/source"
	"github.com/sedna-io/containerd-shim-sedna/storage/source/ranged"
)

const (
	pageSize = "1000"
	// A page of 1000 keys of 1 KiB, escaped threefold, fits well.
	maxPage = 8 << 20
	// maxEmpty is how many pages in a row may hold nothing. Services skip deleted
	// objects in pages of their own, but not for ever.
	maxEmpty = 1000
)

// List implements source.Source.
func (s *Source) List(ctx context.Context, yield func(source.Object) error) error {
	if s.dir {
		return s.below(ctx, yield)
	}
	o, err := s.stat(ctx, s.key)
	switch {
	case err == nil:
		return yield(o)
	case !errors.Is(err, errdefs.ErrNotFound) && !errors.Is(err, errdefs.ErrPermissionDenied):
		return err
	}
	// No such object, or one that we may not ask about: HEAD has no body that
	// could say more, the listing has.
	return s.below(ctx, yield)
}

// below lists the objects under the prefix.
func (s *Source) below(ctx context.Context, yield func(source.Object) error) error {
	prefix := ""
	if s.key != "" {
		prefix = s.key + "/"
	}
	files, token := 0, ""
	var ahead progress
	for {
		p, err := s.page(ctx, prefix, token)
		if err != nil {
			return err
		}
		if err := ahead.check(p); err != nil {
			return err
		}
		for _, entry := range p.Contents {
			o, err := entry.object(prefix)
			if err != nil {
				return err
			}
			if o.Path == "" {
				continue // the prefix's own marker
			}
			if !o.Folder {
				files++
			}
			if err := yield(o); err != nil {
				return err
			}
		}
		if !p.IsTruncated {
			break
		}
		if p.NextContinuationToken == "" || p.NextContinuationToken == token {
			return badList("it is cut off without saying where it goes on")
		}
		token = p.NextContinuationToken
	}
	if files == 0 {
		return notFound(fmt.Sprintf("there are no objects at %q or below %q in bucket %q", s.key, prefix, s.bucket))
	}
	return nil
}

// progress tells a listing that goes on from one that goes round: each page may
// be fine by itself.
type progress struct {
	empty int             // pages in a row
	first map[string]bool // keys that pages began with
}

func (l *progress) check(p *page) error {
	if len(p.Contents) == 0 {
		if l.empty++; l.empty > maxEmpty {
			return endless(fmt.Sprintf("%d pages in a row hold no object", maxEmpty))
		}
		return nil
	}
	l.empty = 0
	key := p.Contents[0].Key
	if l.first[key] {
		return endless(fmt.Sprintf("a second page begins with %q", key))
	}
	if l.first == nil {
		l.first = map[string]bool{}
	}
	l.first[key] = true
	return nil
}

// endless is for listings that another try wouldn't end either.
func endless(why string) *source.Error {
	e := badList("it goes on for ever: " + why)
	e.Transient = false
	return e
}

func (s *Source) page(ctx context.Context, prefix, token string) (*page, error) {
	// The parameters stand sorted, as the signature wants them.
	query := ""
	if token != "" {
		query = "continuation-token=" + escapeQuery(token) + "&"
	}
	query += "encoding-type=url&list-type=2&max-keys=" + pageSize + "&prefix=" + escapeQuery(prefix)
	var p *page
	err := s.retry.Do(ctx, func(ctx context.Context) error {
		return s.inRegion(func() (err error) {
			p, err = s.onePage(ctx, query)
			return err
		})
	})
	return p, err
}

func (s *Source) onePage(ctx context.Context, query string) (*page, error) {
	u := s.bucketURL()
	u.RawPath, u.RawQuery = escapePath(u.Path), query
	resp, err := s.client.Do(ctx, http.MethodGet, u, nil)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, s.client.Refusal(resp)
	}
	return readPage(io.LimitReader(resp.Body, maxPage))
}

// page is a ListBucketResult of ListObjectsV2.
type page struct {
	XMLName               xml.Name `xml:"ListBucketResult"`
	IsTruncated           bool
	NextContinuationToken string
	EncodingType          string
	Contents              []entry
}

type entry struct {
	Key  string
	Size int64
	ETag string
}

// readPage parses a listing; the keys come out as they are.
func readPage(r io.Reader) (*page, error) {
	p := new(page)
	if err := xml.NewDecoder(r).Decode(p); err != nil {
		return nil, badList("it can't be read")
	}
	for i := range p.Contents {
		e := &p.Contents[i]
		if p.EncodingType == "url" {
			key, err := url.QueryUnescape(e.Key)
			if err != nil {
				return nil, badList("a key is badly encoded")
			}
			e.Key = key
		}
		if e.Size < 0 {
			return nil, badList("an object has a negative size")
		}
	}
	return p, nil
}

// object makes a key below prefix into a path.
func (e entry) object(prefix string) (source.Object, error) {
	rest, ok := strings.CutPrefix(e.Key, prefix)
	if !ok {
		return source.Object{}, badList("it holds keys that nobody asked for")
	}
	o := source.Object{Path: rest, Key: e.Key, Size: e.Size, Validator: ranged.Strong(e.ETag)}
	if name, marker := strings.CutSuffix(rest, "/"); marker || rest == "" {
		if e.Size > 0 {
			return o, &source.Error{
				Kind: errdefs.ErrInvalidArgument,
				Why:  fmt.Sprintf("the object %q holds data under a folder's name", e.Key),
				Hint: "rename or exclude it",
			}
		}
		o.Path, o.Folder = name, true
		if name == "" && rest != "" {
			o.Path = rest // "//": an empty name, which will be refused
		}
	}
	return o, nil
}

func badList(why string) *source.Error {
	return &source.Error{
		Kind: errdefs.ErrDataLoss, Why: "the server's listing is broken: " + why, Transient: true,
		Hint: "check that the endpoint is an S3 service",
	}
}
