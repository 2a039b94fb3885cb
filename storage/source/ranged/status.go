// SPDX-License-Identifier: Apache-2.0

package ranged

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/containerd/errdefs"

	"github.com/sedna-io/containerd-shim-sedna/storage/source"
)

// Refusal turns an answer that brings no data into an error.
func (c *Client) Refusal(resp *http.Response) *source.Error {
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	e := c.Status(resp)
	if c.Explain != nil {
		if better := c.Explain(resp, text); better != nil {
			e = better
		}
	}
	if e.Transient {
		e.RetryAfter = retryAfter(resp.Header.Get("Retry-After"), time.Now())
	}
	return e
}

// Status tells what an answer's status alone means.
func (c *Client) Status(resp *http.Response) *source.Error {
	e := &source.Error{Why: fmt.Sprintf("the server answered %d %s", resp.StatusCode, statusText(resp.StatusCode))}
	switch code := resp.StatusCode; {
	case code == http.StatusNotFound || code == http.StatusGone:
		e.Kind, e.Hint = errdefs.ErrNotFound, "check the URL"
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		e.Kind = errdefs.ErrPermissionDenied
		e.Why += " " + c.Identity()
		e.Hint = AccessHint(c.Who)
	case code == http.StatusProxyAuthRequired:
		e.Kind, e.Hint = errdefs.ErrPermissionDenied, "the node's [storage] proxy wants credentials"
	case code == http.StatusPreconditionFailed:
		return changed("the file changed at the source")
	case Transient(code):
		e.Kind, e.Transient = errdefs.ErrUnavailable, true
	case code >= 500:
		e.Kind = errdefs.ErrUnavailable
	case isRedirect(code):
		e.Kind, e.Hint = errdefs.ErrUnavailable, "it redirects without saying where to"
	default:
		e.Kind, e.Hint = errdefs.ErrInvalidArgument, "check the URL"
	}
	return e
}

// Identity says with whose credentials a request went out.
func (c *Client) Identity() string {
	if c.Who == "" {
		return "to an anonymous request"
	}
	return "to the credentials of " + c.Who
}

// AccessHint says what to do about a refusal.
func AccessHint(who string) string {
	if who == "" {
		return "name a volume with credentials in the annotation storage.sedna.io/secret"
	}
	return "check that they may read this and have not expired"
}

// Transient says whether a status may pass by itself.
func Transient(code int) bool {
	switch code {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	case http.StatusNotImplemented, http.StatusHTTPVersionNotSupported:
		return false
	}
	return code >= 500
}

func statusText(code int) string {
	if s := http.StatusText(code); s != "" {
		return s
	}
	return "(unknown)"
}

// retryAfter reads seconds or a date (RFC 9110, 10.2.3).
func retryAfter(s string, now time.Time) time.Duration {
	s = strings.TrimSpace(s)
	if n, err := strconv.ParseUint(s, 10, 31); err == nil {
		return time.Duration(n) * time.Second
	}
	if t, err := http.ParseTime(s); err == nil && t.After(now) {
		return t.Sub(now)
	}
	return 0
}
