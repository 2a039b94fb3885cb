// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxShown is how much of a stranger's value an error repeats.
const maxShown = 100

var schemePrefix = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9+.-]*):`)

// show quotes a value for an error, shortened, and only as far as it can't
// hold a secret that somebody put into the wrong annotation.
func show(value string) string {
	if schemePrefix.MatchString(value) {
		return strconv.Quote(clip(redactRaw(value), maxShown))
	}
	if strings.ContainsAny(value, "@=?#") {
		return "the value"
	}
	return strconv.Quote(clip(value, maxShown))
}

// redactRaw shows what is certainly no secret of a URL that did not parse. In
// such a URL nobody knows where a password ends, so only the scheme and a host
// that looks like one remain.
func redactRaw(raw string) string {
	scheme, rest := cutScheme(raw)
	if scheme == "" {
		return "..."
	}
	rest, slashes := strings.CutPrefix(rest, "//")
	if slashes {
		scheme += "://"
	} else {
		scheme += ":"
	}
	if i := strings.IndexAny(rest, "?#"); i >= 0 {
		rest = rest[:i]
	}
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		rest = rest[i+1:]
	}
	host, _, _ := strings.Cut(rest, "/")
	if name, port, ok := strings.Cut(host, ":"); ok {
		if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			host = name
		}
	}
	if !plainWord.matches(strings.ReplaceAll(host, ":", "")) {
		host = ""
	}
	if host == rest {
		return scheme + host
	}
	return scheme + host + "/..."
}

// redactQuery keeps the names of a query's values, where they look like names.
func redactQuery(query string) string {
	if query == "" {
		return ""
	}
	params := strings.Split(query, "&")
	const most = 12
	shown := params[:min(len(params), most)]
	for i, param := range shown {
		name, _, ok := strings.Cut(param, "=")
		if !ok || !plainQuery.matches(name) {
			shown[i] = redacted
			continue
		}
		shown[i] = name + "=" + redacted
	}
	text := "?" + strings.Join(shown, "&")
	if len(params) > most {
		text += "&..."
	}
	return text
}

// escapePath writes a decoded path as it stands in a URL, without the escapes
// that make unicode unreadable.
func escapePath(path string) string {
	if strings.ContainsAny(path, "%?# \"") {
		return (&url.URL{Path: path}).EscapedPath()
	}
	return path
}

// clip shortens text to at most n bytes, on a rune boundary.
func clip(text string, n int) string {
	if len(text) <= n {
		return text
	}
	n = max(0, n-len("..."))
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + "..."
}

// cutScheme splits "SCHEME:REST", with the scheme in lower case; the scheme is
// "" where there is none.
func cutScheme(raw string) (scheme, rest string) {
	m := schemePrefix.FindStringSubmatch(raw)
	if m == nil {
		return "", raw
	}
	return strings.ToLower(m[1]), raw[len(m[0]):]
}
