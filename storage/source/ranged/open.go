// SPDX-License-Identifier: Apache-2.0

package ranged

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"

	"github.com/containerd/errdefs"

	"github.com/sedna-io/containerd-shim-sedna/storage/source"
)

// Open implements source.Source's Open for one URL. header is sent as it is,
// besides the range and the condition, which is "If-Match" or "If-Range".
func (c *Client) Open(ctx context.Context, u *url.URL, condition string, o source.Object, off, end int64) (*source.Reply, error) {
	header := http.Header{}
	ranged := off > 0 || end >= 0
	if ranged {
		span := "bytes=" + strconv.FormatInt(off, 10) + "-"
		if end >= 0 {
			span += strconv.FormatInt(end-1, 10)
		}
		header["Range"] = []string{span}
	}
	if o.Validator != "" && (ranged || condition == "If-Match") {
		header[condition] = []string{o.Validator}
	}
	var over net.Conn
	resp, err := c.Do(traced(ctx, &over), http.MethodGet, u, header) //nolint:bodyclose // the reply has it
	if err != nil {
		return nil, err
	}
	r, err := c.reply(ctx, u, resp, o, off, end)
	if err != nil {
		drain(resp.Body)
		return nil, err
	}
	if b, ok := r.Body.(*body); ok {
		b.conn = pourable(over, resp)
	}
	return r, nil
}

func (c *Client) reply(ctx context.Context, u *url.URL, resp *http.Response, o source.Object, off, end int64) (*source.Reply, error) {
	r := &source.Reply{Size: source.Unknown, Length: resp.ContentLength, Validator: Strong(resp.Header.Get("ETag"))}
	var err error
	switch resp.StatusCode {
	case http.StatusOK:
		if err = whole(resp, r); c.Checksum != nil {
			r.Sum = c.Checksum(resp.Header)
		}
	case http.StatusPartialContent:
		err = part(resp, r, off, end)
	case http.StatusRequestedRangeNotSatisfiable:
		cr, bad := parseContentRange(resp.Header.Get("Content-Range"))
		if bad != nil || off != 0 || cr.size != 0 {
			return nil, changed("the server says that the file is shorter than before")
		}
		// An empty file has no first byte to answer with.
		drain(resp.Body)
		return &source.Reply{Body: http.NoBody, Size: 0, Validator: r.Validator, Ranged: true}, nil
	default:
		return nil, c.Refusal(resp)
	}
	if err != nil {
		return nil, err
	}
	switch {
	case o.Validator == "" || r.Validator == o.Validator:
	case r.Validator == "":
		return nil, broken("the server sent no ETag, as it did before, to tell the version by")
	default:
		return nil, changed("the file changed at the source (another ETag)")
	}
	if o.Size >= 0 && r.Size >= 0 && r.Size != o.Size {
		return nil, changed(fmt.Sprintf("the file changed at the source (%d bytes, not %d)", r.Size, o.Size))
	}
	if e := resp.Header.Get("Content-Encoding"); encoded(e, u.Path) {
		return nil, broken("the server sent the file with Content-Encoding %q although identity was asked for", known(e))
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	r.Page = (kind == "text/html" || kind == "application/xhtml+xml") && !pageName(u.Path)
	r.Body = &body{ctx: ctx, url: u, in: resp.Body}
	return r, nil
}

// whole reads the headers of a 200.
func whole(resp *http.Response, r *source.Reply) error {
	r.Size = resp.ContentLength
	chunked := len(resp.TransferEncoding) > 0
	r.Unbounded = resp.ContentLength < 0 && !chunked
	if s := resp.Header.Get("Content-Range"); s != "" {
		cr, err := parseContentRange(s)
		if err != nil || cr.first != 0 || cr.size < 0 || cr.last+1 != cr.size || cr.size != resp.ContentLength {
			return broken("the server answered 200 with a Content-Range of another size")
		}
	}
	return nil
}

// part reads the headers of a 206, which must be what was asked for.
func part(resp *http.Response, r *source.Reply, off, end int64) error {
	cr, err := parseContentRange(resp.Header.Get("Content-Range"))
	switch {
	case err != nil || cr.first < 0:
		return broken("the server answered 206 without saying which part it sent")
	case cr.first != off:
		return broken("the server sent the part from byte %d, not from %d", cr.first, off)
	case end >= 0 && cr.last >= end:
		return broken("the server sent more than the part asked for")
	case r.Length >= 0 && r.Length != cr.last-cr.first+1:
		return broken("the server sent a part of another length than its Content-Range says")
	}
	r.Offset, r.Length, r.Size, r.Ranged = cr.first, cr.last-cr.first+1, cr.size, true
	return nil
}

func changed(why string) *source.Error {
	return &source.Error{Kind: errdefs.ErrUnavailable, Why: why, Transient: true, Changed: true}
}

// broken is for replies that contradict themselves: a next try may meet a
// better server behind the same name.
func broken(format string, args ...any) *source.Error {
	return &source.Error{
		Kind: errdefs.ErrDataLoss, Why: fmt.Sprintf(format, args...), Transient: true,
		Hint: "the server, or a proxy before it, is at fault",
	}
}

// encoded says whether a Content-Encoding hides the stored bytes. Servers
// label a stored .gz with its own compression: those bytes are the file.
func encoded(encoding, name string) bool {
	switch strings.ToLower(strings.TrimSpace(encoding)) {
	case "", "identity", "aws-chunked":
		return false
	case "gzip", "x-gzip":
		ext := strings.ToLower(path.Ext(name))
		return ext != ".gz" && ext != ".tgz"
	case "zstd":
		return strings.ToLower(path.Ext(name)) != ".zst"
	}
	return true
}

// known keeps what a server says to what isn't a secret that it got from us.
func known(encoding string) string {
	switch e := strings.ToLower(strings.TrimSpace(encoding)); e {
	case "gzip", "x-gzip", "compress", "x-compress", "deflate", "br", "zstd", "dcb", "dcz":
		return e
	}
	return "(unknown)"
}

// pageName says whether a web page is what one would expect under this name.
func pageName(name string) bool {
	switch strings.ToLower(path.Ext(name)) {
	case ".html", ".htm", ".xhtml", ".php", "":
		return true
	}
	return false
}

// body tells the errors of reading in our words.
type body struct {
	ctx context.Context
	url *url.URL
	in  io.ReadCloser

	conn *conn    // nil where nothing can be poured
	to   *pouring // nil until something is
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.in.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = explain(b.ctx, b.url, err)
	}
	return n, err
}

func (b *body) Close() error {
	if b.to != nil {
		b.to.pipe.close()
	}
	return b.in.Close()
}
