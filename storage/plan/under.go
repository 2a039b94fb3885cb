// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"net/url"
	"path"
	"strings"
)

// Under says whether the URL lies at or below a prefix like s3://bucket/dir or
// https://host/dir, compared by whole path segments. It guards credentials that
// aren't the pod's own, so a URL that a server could read in two ways is under
// nothing: one with an escaped slash or with dot segments.
func (u URL) Under(prefix string) bool {
	scheme, rest := cutScheme(prefix)
	if scheme == "obs" {
		scheme = "s3"
	}
	rest, ok := strings.CutPrefix(rest, "//")
	if !ok || scheme != u.Scheme || u.isAmbiguous() {
		return false
	}
	host, below, _ := strings.Cut(rest, "/")
	if host == "" || !strings.EqualFold(host, u.Host) || scheme == "s3" && host != u.Host {
		return false
	}
	below = strings.TrimSuffix(below, "/")
	own := strings.TrimPrefix(u.Path, "/")
	return below == "" || own == below || strings.HasPrefix(own, below+"/")
}

func (u URL) isAmbiguous() bool {
	if u.Scheme == "s3" {
		return false
	}
	parsed, err := url.Parse(u.raw)
	if err != nil {
		return true
	}
	escaped := strings.ToLower(parsed.EscapedPath())
	return strings.Contains(escaped, "%2f") || strings.Contains(escaped, ";") || path.Clean(parsed.Path) != parsed.Path
}
