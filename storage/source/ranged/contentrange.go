// SPDX-License-Identifier: Apache-2.0

package ranged

import (
	"errors"
	"strconv"
	"strings"
)

// contentRange is a Content-Range header: bytes first-last/size, where a part
// that the server left open is negative.
type contentRange struct{ first, last, size int64 }

var errContentRange = errors.New("malformed Content-Range")

// parseContentRange reads `bytes 0-9/100`, `bytes 0-9/*` and `bytes */100`
// (RFC 9110, 14.4).
func parseContentRange(s string) (contentRange, error) {
	none := contentRange{-1, -1, -1}
	unit, rest, ok := strings.Cut(strings.TrimSpace(s), " ")
	if !ok || !strings.EqualFold(unit, "bytes") {
		return none, errContentRange
	}
	span, size, ok := strings.Cut(strings.TrimSpace(rest), "/")
	if !ok {
		return none, errContentRange
	}
	r := none
	var err error
	if size != "*" {
		if r.size, err = number(size); err != nil {
			return none, err
		}
	}
	if span == "*" {
		if r.size < 0 {
			return none, errContentRange
		}
		return r, nil
	}
	first, last, ok := strings.Cut(span, "-")
	if !ok {
		return none, errContentRange
	}
	if r.first, err = number(first); err != nil {
		return none, err
	}
	if r.last, err = number(last); err != nil {
		return none, err
	}
	if r.last < r.first || (r.size >= 0 && r.last >= r.size) {
		return none, errContentRange
	}
	return r, nil
}

// number reads digits only: no sign, no space.
func number(s string) (int64, error) {
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return 0, errContentRange
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, errContentRange
	}
	return n, nil
}

// Strong returns an ETag that names one sequence of bytes, and "" for a weak
// or malformed one (RFC 9110, 8.8.1).
func Strong(etag string) string {
	if len(etag) < 2 || etag[0] != '"' || etag[len(etag)-1] != '"' {
		return ""
	}
	if strings.ContainsAny(etag[1:len(etag)-1], "\"\r\n") {
		return ""
	}
	return etag
}
