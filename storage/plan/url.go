// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits on names, so that what is planned can be made on a Linux file system.
const (
	maxSegment = 255  // NAME_MAX
	maxPath    = 2048 // leaves half of PATH_MAX to the folder of the volume
	maxURL     = 16 << 10
)

// URL is a source of bytes: scheme s3 (obs is s3 too), http or https. Its
// String, JSON and every fmt verb leave out userinfo and show the values of
// the query redacted.
type URL struct {
	// Scheme is "s3", "http" or "https", in lower case.
	Scheme string
	// Host is the bucket for s3, else the host with its port, as written.
	Host string
	// Path is the object key or prefix for s3, literal and without the leading
	// slash; the decoded, clean path with its leading slash for http and https.
	Path string

	raw   string
	query string
}

// Reveal returns the URL as the user wrote it, secrets included.
func (u URL) Reveal() string { return u.raw }

// IsZero says whether there is no URL.
func (u URL) IsZero() bool { return u.raw == "" && u.Host == "" }

// String implements fmt.Stringer: the redacted form.
func (u URL) String() string {
	if u.IsZero() {
		return ""
	}
	if u.Scheme == "s3" {
		return "s3://" + u.Host + "/" + u.Path + redactQuery(u.query)
	}
	return u.Scheme + "://" + u.Host + escapePath(u.Path) + redactQuery(u.query)
}

// Format implements fmt.Formatter, so that no verb reaches the secrets.
func (u URL) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(u.String())) }

// MarshalText implements encoding.TextMarshaler: the redacted form.
func (u URL) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// ParseURL checks a URL that can be fetched. Its errors show the URL redacted.
func ParseURL(raw string) (URL, error) {
	u, err := parseURL(raw)
	if err != nil {
		return URL{}, err
	}
	return u, nil
}

func parseURL(raw string) (URL, *fault) {
	if len(raw) > maxURL {
		return URL{}, faultf("", "the URL has %d bytes, more than %d", len(raw), maxURL)
	}
	scheme, rest := cutScheme(raw)
	switch scheme {
	case "s3", "obs":
		return parseS3(raw, rest)
	case "http", "https":
		return parseWeb(raw, scheme)
	case "":
		return URL{}, faultf(knownSchemes, "the URL has no scheme")
	default:
		return URL{}, faultf(knownSchemes, "the scheme %s is unknown", strconv.Quote(clip(scheme, 20)))
	}
}

const knownSchemes = "use s3://, obs://, http://, https://, file:/// or an absolute path of the node"

// parseS3 takes key and prefix literally, as S3 has them: nothing is decoded
// and nothing is cleaned.
func parseS3(raw, rest string) (URL, *fault) {
	rest, ok := strings.CutPrefix(rest, "//")
	if !ok {
		return URL{}, faultf("write s3://BUCKET/KEY", "%s has no // before the bucket", show(raw))
	}
	rest, _, _ = strings.Cut(rest, "#")
	rest, query, _ := strings.Cut(rest, "?")
	bucket, key, _ := strings.Cut(rest, "/")
	switch {
	case bucket == "":
		return URL{}, faultf("write s3://BUCKET/KEY", "%s has no bucket", show(raw))
	case strings.Contains(bucket, "@"):
		return URL{}, faultf("put keys into a secret volume and name it by `secret`", "%s has credentials in it", show(raw))
	case strings.Contains(bucket, ":"):
		return URL{}, faultf("name the S3 service by `s3-endpoint`", "%s has a port in the bucket's place", show(raw))
	case !bucketName.matches(bucket) || strings.Contains(bucket, ".."):
		return URL{}, faultf("letters, digits, - _ and . make a bucket", "%s has no valid bucket name", show(raw))
	case asksVersion(query):
		return URL{}, faultf("pin the content with `digest`", "%s asks for a version of the object, which isn't supported", show(raw))
	}
	u := URL{Scheme: "s3", Host: bucket, Path: key, raw: raw, query: query}
	if err := checkKey(key); err != nil {
		return URL{}, faultf(err.hint, "%s %s", quoteURL(u), err.problem)
	}
	return u, nil
}

func asksVersion(query string) bool {
	for param := range strings.SplitSeq(query, "&") {
		if name, _, _ := strings.Cut(param, "="); strings.EqualFold(name, "versionId") {
			return true
		}
	}
	return false
}

// checkKey refuses keys that are no path of their own below the bucket.
func checkKey(key string) *fault {
	key = strings.TrimSuffix(key, "/")
	if key == "" {
		return nil
	}
	for segment := range strings.SplitSeq(key, "/") {
		switch segment {
		case "":
			return faultf("", "has an empty segment in its key")
		case ".", "..":
			return faultf("s3 keys are literal", "has the segment %q in its key, which is no file name", segment)
		}
		if err := checkSegment(segment); err != nil {
			return err
		}
	}
	return checkLength(key)
}

func parseWeb(raw, scheme string) (URL, *fault) {
	u, err := url.Parse(raw)
	if err != nil {
		return URL{}, faultf("", "%s is no valid URL: %s", show(raw), whyNoURL(err))
	}
	if !goodHost(u.Host) {
		if u.Host == "" {
			return URL{}, faultf("write "+scheme+"://HOST/PATH", "%s has no host", show(raw))
		}
		return URL{}, faultf("", "%s has no valid host and port", show(raw))
	}
	clean, fault := cleanPath(u.Path)
	parsed := URL{Scheme: scheme, Host: u.Host, Path: clean, raw: raw, query: u.RawQuery}
	if fault != nil {
		parsed.Path = path.Join("/", clip(u.Path, maxShown))
		return URL{}, faultf(fault.hint, "%s %s", quoteURL(parsed), fault.problem)
	}
	return parsed, nil
}

// whyNoURL names a parser's complaint without repeating the URL, which
// *url.Error does.
func whyNoURL(err error) string {
	var escape url.EscapeError
	var host url.InvalidHostError
	switch {
	case errors.As(err, &escape):
		return "a % isn't followed by two hex digits"
	case errors.As(err, &host):
		return "the host has a character that no host has"
	default:
		return "its host, port or userinfo is malformed"
	}
}

// cleanPath resolves "." and ".." of a decoded path that stays below its host
// and ends in a file's name.
func cleanPath(decoded string) (string, *fault) {
	depth := 0
	last := ""
	for segment := range strings.SplitSeq(decoded, "/") {
		last = segment
		switch segment {
		case "", ".":
			continue
		case "..":
			depth--
		default:
			depth++
			if err := checkSegment(segment); err != nil {
				return "", err
			}
		}
		if depth < 0 {
			return "", faultf("", "leaves its host by ..")
		}
	}
	if last == "" || last == "." || last == ".." {
		return "", faultf("end it in a file's name; only s3 has folders", "names no file")
	}
	clean := path.Clean(decoded)
	return clean, checkLength(clean)
}

// checkSegment refuses what can't be one file name, or would deceive a reader.
func checkSegment(segment string) *fault {
	switch {
	case len(segment) > maxSegment:
		return faultf("", "has a name longer than %d bytes", maxSegment)
	case !utf8.ValidString(segment):
		return faultf("", "has a name that isn't UTF-8")
	case strings.ContainsAny(segment, "\\\x00"):
		return faultf("", "has a backslash or NUL in a name")
	case strings.ContainsFunc(segment, deceives):
		return faultf("", "has a control character in a name")
	}
	return nil
}

func deceives(r rune) bool {
	return unicode.IsControl(r) || unicode.In(r, unicode.Bidi_Control, unicode.Zl, unicode.Zp)
}

func checkLength(p string) *fault {
	if len(p) > maxPath {
		return faultf("", "has a path longer than %d bytes", maxPath)
	}
	return nil
}

// quoteURL quotes a parsed URL for an error.
func quoteURL(u URL) string { return strconv.Quote(clip(u.String(), 2*maxShown)) }
