// SPDX-License-Identifier: Apache-2.0

// Package web fetches single files over http and https.
package web

import (
	"context"
	"net/http"
	"net/url"

	"github.com/containerd/errdefs"

	"github.com/sedna-io/containerd-shim-sedna/storage/plan"
	"github.com/sedna-io/containerd-shim-sedna/storage/source"
	"github.com/sedna-io/containerd-shim-sedna/storage/source/ranged"
)

// Source is one URL, and the URLs below it that an index file names.
type Source struct {
	client *ranged.Client
	url    *url.URL
}

var _ source.Source = (*Source)(nil)

// New returns the source for the file at u with credentials for its host.
func New(n *ranged.Network, u plan.URL, c plan.Credentials) (*Source, error) {
	return Below(n, u.Reveal(), c)
}

// Below returns the source for what lies below a base URL: Open takes keys.
func Below(n *ranged.Network, base string, c plan.Credentials) (*Source, error) {
	parsed, err := url.Parse(base)
	if err != nil || parsed.Host == "" {
		return nil, &source.Error{Kind: errdefs.ErrInvalidArgument, Why: "the URL can't be read"}
	}
	client, err := n.NewClient(c.CABundle, c.SkipVerify)
	if err != nil {
		return nil, err
	}
	client.Follow = true
	if !c.BearerToken.IsZero() || !c.Username.IsZero() || len(c.Headers) > 0 {
		client.Who = c.From
	}
	client.Authorize = authorize(parsed.User, c)
	if parsed.User != nil {
		client.Who = "the URL"
	}
	return &Source{client, parsed}, nil
}

// List implements source.Source: there's one file, and the first reply to
// Open tells its size. A HEAD would cost a round trip, and servers get it wrong.
func (s *Source) List(_ context.Context, yield func(source.Object) error) error {
	return yield(source.Object{Size: source.Unknown})
}

// Open implements source.Source. A key is resolved below the URL.
func (s *Source) Open(ctx context.Context, o source.Object, off, end int64) (*source.Reply, error) {
	u := s.url
	if o.Key != "" {
		u = u.JoinPath(escape(o.Key))
	}
	return s.client.Open(ctx, u, "If-Range", o, off, end)
}

// escape keeps a key's characters from ending the path.
func escape(key string) string { return (&url.URL{Path: key}).EscapedPath() }

// authorize returns what adds the credentials to a request. Those in the URL
// itself come first: the user wrote them for this very URL.
func authorize(user *url.Userinfo, c plan.Credentials) func(*http.Request) {
	return func(r *http.Request) {
		if covers(c, r.URL) {
			add(r, c)
		}
		if user != nil {
			password, _ := user.Password()
			r.SetBasicAuth(user.Username(), password)
		}
	}
}

func add(r *http.Request, c plan.Credentials) {
	for name, value := range c.Headers {
		r.Header.Set(name, value.Reveal())
	}
	switch {
	case !c.BearerToken.IsZero():
		r.Header.Set("Authorization", "Bearer "+c.BearerToken.Reveal())
	case !c.Username.IsZero():
		r.SetBasicAuth(c.Username.Reveal(), c.Password.Reveal())
	}
}

// covers says whether the credentials are meant for a URL of their host: a
// redirect there may lead to a path that they aren't for.
func covers(c plan.Credentials, u *url.URL) bool {
	if len(c.Prefixes) == 0 {
		return true
	}
	asked, err := plan.ParseURL(u.String())
	return err == nil && c.Cover(asked)
}
