// SPDX-License-Identifier: Apache-2.0

package ranged

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/containerd/errdefs"

	"github.com/sedna-io/containerd-shim-sedna/internal/version"
	"github.com/sedna-io/containerd-shim-sedna/storage/source"
)

// Client sends requests for one source.
type Client struct {
	http     *http.Transport
	http2    *http.Transport // for servers that speak nothing else
	only2    atomic.Bool
	shortcut atomic.Pointer[shortcut]
	// Authorize adds what lets us read. It is called for requests to the host
	// that the first URL named, never for another.
	Authorize func(*http.Request)
	// Who says whose credentials those are, for errors; "" for anonymous.
	Who string
	// Checksum reads the checksum of a whole object from its reply; nil where
	// there are none.
	Checksum func(http.Header) source.Checksum
	// Follow allows redirects.
	Follow bool
	// Explain may know more about a refusal than its status tells; nil or a
	// nil answer leaves it at the status.
	Explain func(*http.Response, []byte) *source.Error
}

// NewClient returns a client that trusts the node's roots and the bundle.
func (n *Network) NewClient(bundle []byte, skipVerify bool) (*Client, error) {
	t, err := n.transport(bundle, skipVerify)
	if err != nil {
		return nil, err
	}
	return &Client{http: t.http1, http2: t.http2}, nil
}

var userAgent = "sedna-storage/" + version.Version

// shortcut is where a URL's redirects led to lately, so that each part of a
// file needs not go the whole way.
type shortcut struct {
	from string
	to   *url.URL
	till time.Time
}

// remembered is how long a shortcut is taken. Signed ones last minutes, and
// one that is refused is forgotten at once.
const remembered = time.Minute

// Do sends a request without a body and returns the answer whatever its
// status, after following redirects.
func (c *Client) Do(ctx context.Context, method string, u *url.URL, header http.Header) (*http.Response, error) {
	if s := c.shortcut.Load(); s != nil && s.from == u.String() && time.Now().Before(s.till) {
		resp, err := c.once(ctx, method, s.to, u, header)
		if err == nil && resp.StatusCode < http.StatusMultipleChoices {
			return resp, nil
		}
		if err == nil {
			drain(resp.Body)
		} else if ctx.Err() != nil {
			return nil, err
		}
		c.shortcut.Store(nil)
	}
	return c.follow(ctx, method, u, header)
}

func (c *Client) follow(ctx context.Context, method string, first *url.URL, header http.Header) (*http.Response, error) {
	u := first
	for hop := 0; ; hop++ {
		resp, err := c.once(ctx, method, u, first, header)
		if err != nil {
			return nil, err
		}
		location := resp.Header.Get("Location")
		if !c.Follow || !isRedirect(resp.StatusCode) || location == "" {
			if hop > 0 {
				c.shortcut.Store(&shortcut{first.String(), u, time.Now().Add(remembered)})
			}
			return resp, nil
		}
		drain(resp.Body)
		if hop == maxRedirects {
			return nil, refused("the server redirects more than %d times", maxRedirects)
		}
		if u, err = redirect(u, location); err != nil {
			return nil, err
		}
	}
}

// once sends one request to u, with credentials if that is where first leads.
func (c *Client) once(ctx context.Context, method string, u, first *url.URL, header http.Header) (*http.Response, error) {
	req := c.request(ctx, method, u, header)
	if sameHost(u, first) && c.Authorize != nil {
		c.Authorize(req)
	}
	if c.only2.Load() {
		return c.send(ctx, c.http2, req)
	}
	resp, err := c.http.RoundTrip(req)
	if refusal := alert(err); strings.Contains(refusal, noApplicationProtocol) {
		c.only2.Store(true)
		return c.send(ctx, c.http2, req)
	}
	if err != nil {
		return nil, explain(ctx, u, err)
	}
	return resp, nil
}

func (c *Client) send(ctx context.Context, t *http.Transport, req *http.Request) (*http.Response, error) {
	resp, err := t.RoundTrip(req)
	if err != nil {
		return nil, explain(ctx, req.URL, err)
	}
	return resp, nil
}

// noApplicationProtocol is how package tls words the alert of a server that
// doesn't speak HTTP/1.1 (RFC 7301, 3.2).
const noApplicationProtocol = "no application protocol"

// alert is what a TLS server refused a connection with, "" if it didn't. The
// type is tls's own secret.
func alert(err error) string {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "remote error" {
		return op.Err.Error()
	}
	return ""
}

func (c *Client) request(ctx context.Context, method string, u *url.URL, header http.Header) *http.Request {
	h := make(http.Header, len(header)+4)
	for k, v := range header {
		h[k] = v
	}
	h["User-Agent"] = []string{userAgent}
	// Anything but the stored bytes would break sizes, ranges and digests.
	h["Accept-Encoding"] = []string{"identity"}
	bare := *u
	bare.User, bare.Fragment, bare.RawFragment = nil, "", ""
	req := &http.Request{
		Method: method, URL: &bare, Host: bare.Host, Header: h,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
	return req.WithContext(ctx)
}

func isRedirect(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return false
}

// redirect resolves a Location. Its text may hold secrets: no error shows it.
func redirect(from *url.URL, location string) (*url.URL, error) {
	to, err := from.Parse(location)
	if err != nil || to.Host == "" {
		return nil, refused("the server redirects to an address that can't be read")
	}
	to.Scheme = strings.ToLower(to.Scheme)
	if to.Scheme != "http" && to.Scheme != "https" {
		return nil, refused("the server redirects to the scheme %q", to.Scheme)
	}
	if from.Scheme == "https" && to.Scheme == "http" {
		return nil, refused("the server redirects from https to http at %s", to.Host)
	}
	to.User = nil
	return to, nil
}

func refused(format string, args ...any) *source.Error {
	return &source.Error{
		Kind: errdefs.ErrPermissionDenied, Why: fmt.Sprintf(format, args...) + ", which is not followed",
		Hint: "name the file's final URL",
	}
}

// sameHost says whether two URLs lead to one service, port and scheme included.
func sameHost(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && strings.EqualFold(a.Hostname(), b.Hostname()) && port(a) == port(b)
}

func port(u *url.URL) string {
	if p := u.Port(); p != "" {
		return p
	}
	if u.Scheme == "https" {
		return "443"
	}
	return "80"
}

// drain reads a little, so that the connection can be used again, and closes.
func drain(body io.ReadCloser) {
	_, _ = io.CopyN(io.Discard, body, maxDrain)
	_ = body.Close()
}
