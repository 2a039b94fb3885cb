// SPDX-License-Identifier: Apache-2.0

package s3

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"

	"github.com/containerd/errdefs"

	"github.com/sedna-io/containerd-shim-sedna/storage/plan"
	"github.com/sedna-io/containerd-shim-sedna/storage/source"
	"github.com/sedna-io/containerd-shim-sedna/storage/source/ranged"
)

// Source is an object or a prefix of one bucket.
type Source struct {
	client *ranged.Client
	retry  *source.Retry
	signer *keySigner // nil for anonymous requests
	where  endpoint
	bucket string
	key    string // without a trailing slash
	dir    bool   // the key is a prefix and no object

	region atomic.Pointer[string]
	fixed  bool // the user named the region
}

var _ source.Source = (*Source)(nil)

// New returns the source for a download with the credentials for it.
func New(n *ranged.Network, d plan.Download, c plan.Credentials) (*Source, error) {
	host, insecure, err := d.Endpoint(c)
	if err != nil {
		return nil, err
	}
	where := endpoint{host, insecure, d.S3.Addressing}
	client, err := n.NewClient(c.CABundle, c.SkipVerify)
	if err != nil {
		return nil, err
	}
	if !c.Cover(d.URL) {
		c = plan.Credentials{Region: c.Region}
	}
	s := &Source{
		client: client, retry: &n.Retry, where: where, bucket: d.URL.Host,
		key: strings.TrimSuffix(d.URL.Path, "/"),
		dir: d.Dir || d.URL.Path == "" || strings.HasSuffix(d.URL.Path, "/"),
	}
	if !c.AccessKey.IsZero() {
		client.Who = c.From
		s.signer = &keySigner{access: c.AccessKey.Reveal(), secret: c.SecretKey, token: c.SessionToken}
	}
	region := d.Region(c)
	s.fixed = region != ""
	region = first(region, where.region(), defaultRegion)
	s.region.Store(&region)
	client.Explain, client.Checksum = s.explain, checksumOf
	client.Authorize = func(r *http.Request) {
		for name, value := range c.Headers {
			r.Header.Set(name, value.Reveal())
		}
		askForChecksum(r)
		if s.signer != nil {
			s.signer.sign(r, *s.region.Load())
		}
	}
	return s, nil
}

// Open implements source.Source.
func (s *Source) Open(ctx context.Context, o source.Object, off, end int64) (*source.Reply, error) {
	var r *source.Reply
	err := s.inRegion(func() (err error) {
		r, err = s.client.Open(ctx, s.object(o.Key), "If-Match", o, off, end)
		return err
	})
	return r, err
}

// stat asks for one object's size and version.
func (s *Source) stat(ctx context.Context, key string) (source.Object, error) {
	o := source.Object{Key: key}
	err := s.retry.Do(ctx, func(ctx context.Context) error {
		return s.inRegion(func() error {
			resp, err := s.client.Do(ctx, http.MethodHead, s.object(key), nil)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			switch resp.StatusCode {
			case http.StatusOK:
			case http.StatusMethodNotAllowed, http.StatusNotImplemented:
				return s.statByGet(ctx, &o)
			default:
				return s.client.Refusal(resp)
			}
			o.Size, o.Validator = resp.ContentLength, ranged.Strong(resp.Header.Get("ETag"))
			o.Sum = checksumOf(resp.Header)
			return nil
		})
	})
	return o, err
}

// statByGet asks for one byte of an object, where a proxy lets no HEAD pass.
func (s *Source) statByGet(ctx context.Context, o *source.Object) error {
	reply, err := s.client.Open(ctx, s.object(o.Key), "If-Match", source.Object{Size: source.Unknown}, 0, 1)
	if err != nil {
		return err
	}
	o.Size, o.Validator = reply.Size, reply.Validator
	return reply.Body.Close()
}

// inRegion does what f does, once more where the server names another region
// than ours. A region that the user named is never second-guessed.
func (s *Source) inRegion(f func() error) error {
	err := f()
	var elsewhere *regionError
	if !errors.As(err, &elsewhere) || s.fixed {
		return err
	}
	s.region.Store(&elsewhere.region)
	return f()
}

// object is the address of one key.
func (s *Source) object(key string) *url.URL {
	u := s.bucketURL()
	u.Path += key
	u.RawPath = escapePath(u.Path)
	return u
}

func (s *Source) bucketURL() *url.URL {
	host := s.where.regional(*s.region.Load())
	scheme := "https"
	if s.where.insecure {
		scheme = "http"
	}
	if s.where.virtual(s.bucket) {
		return &url.URL{Scheme: scheme, Host: s.bucket + "." + host, Path: "/"}
	}
	return &url.URL{Scheme: scheme, Host: host, Path: "/" + s.bucket + "/"}
}

func first(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

func notFound(why string) *source.Error {
	return &source.Error{Kind: errdefs.ErrNotFound, Why: why, Hint: "check bucket, key and endpoint"}
}
