// SPDX-License-Identifier: Apache-2.0

package s3

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sedna-io/containerd-shim-sedna/storage/plan"
)

// emptyHash is the sha256 of no bytes: our requests have no body.
const emptyHash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// keySigner adds AWS Signature Version 4 to requests. It does what
// minio-go/v7/pkg/signer:SignV4 does (a test holds them equal) at a fraction
// of the cost, which counts with many small objects on a small node.
type keySigner struct {
	access string
	secret plan.Secret
	token  plan.Secret

	last atomic.Pointer[signingKey]
}

// signingKey is good for one day in one region.
type signingKey struct {
	day, region string
	key         []byte
}

func (s *keySigner) sign(r *http.Request, region string) { s.signAt(r, region, time.Now().UTC()) }

func (s *keySigner) signAt(r *http.Request, region string, now time.Time) {
	stamp := now.Format("20060102T150405Z")
	day := stamp[:8]
	r.Header["X-Amz-Date"] = []string{stamp}
	r.Header["X-Amz-Content-Sha256"] = []string{emptyHash}
	if !s.token.IsZero() {
		r.Header["X-Amz-Security-Token"] = []string{s.token.Reveal()}
	}
	names, headers := canonicalHeaders(r)
	request := r.Method + "\n" + r.URL.EscapedPath() + "\n" + r.URL.RawQuery + "\n" +
		headers + "\n" + names + "\n" + emptyHash
	scope := day + "/" + region + "/s3/aws4_request"
	sum := sha256.Sum256([]byte(request))
	text := "AWS4-HMAC-SHA256\n" + stamp + "\n" + scope + "\n" + hex.EncodeToString(sum[:])
	signature := hex.EncodeToString(mac(s.key(day, region), text))
	r.Header["Authorization"] = []string{"AWS4-HMAC-SHA256 Credential=" + s.access + "/" + scope +
		", SignedHeaders=" + names + ", Signature=" + signature}
}

// key derives the day's key, once.
func (s *keySigner) key(day, region string) []byte {
	if k := s.last.Load(); k != nil && k.day == day && k.region == region {
		return k.key
	}
	k := mac([]byte("AWS4"+s.secret.Reveal()), day)
	for _, part := range []string{region, "s3", "aws4_request"} {
		k = mac(k, part)
	}
	s.last.Store(&signingKey{day, region, k})
	return k
}

// canonicalHeaders lists what is signed: the host and what is S3's own, which
// is what the protocol asks for. Ranges and conditions may pass proxies.
func canonicalHeaders(r *http.Request) (names, text string) {
	list := make([]string, 0, len(r.Header)+1)
	list = append(list, "host")
	for name := range r.Header {
		if strings.HasPrefix(name, "X-Amz-") {
			list = append(list, strings.ToLower(name))
		}
	}
	slices.Sort(list)
	var b strings.Builder
	for _, name := range list {
		value := r.Host
		if name != "host" {
			value = strings.Join(strings.Fields(strings.Join(r.Header[http.CanonicalHeaderKey(name)], ",")), " ")
		}
		b.WriteString(name)
		b.WriteByte(':')
		b.WriteString(value)
		b.WriteByte('\n')
	}
	return strings.Join(list, ";"), b.String()
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

const upperHex = "0123456789ABCDEF"

// escapePath writes a path as AWS signs it: every byte but the unreserved
// ones, and slashes, as %XX.
func escapePath(s string) string { return escape(s, true) }

// escapeQuery is the same for a query's value, where a slash is escaped too.
func escapeQuery(s string) string { return escape(s, false) }

func escape(s string, slash bool) string {
	var b strings.Builder
	b.Grow(len(s))
	for i := range len(s) {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9',
			c == '-', c == '.', c == '_', c == '~', c == '/' && slash:
			b.WriteByte(c)
		default:
			b.WriteByte('%')
			b.WriteByte(upperHex[c>>4])
			b.WriteByte(upperHex[c&15])
		}
	}
	return b.String()
}
