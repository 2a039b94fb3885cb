// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"bytes"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

const maxHeaders = 64

// ownHeaders are those by which a download says what it wants and how: a
// secret that set them could make a reply mean something else.
var ownHeaders = []string{
	"Accept-Encoding", "Connection", "Content-Length", "Content-Type", "Expect", "Host",
	"If-Match", "If-Modified-Since", "If-None-Match", "If-Range", "If-Unmodified-Since",
	"Keep-Alive", "Range", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

// headers reads HOST-headers, a JSON object of names and values.
func (s *secretFiles) headers(host string) map[string]Secret {
	name, data := s.headerFile(host)
	if data == "" {
		return nil
	}
	if len(data) > maxText {
		s.found.add(name, "", "has more than %d bytes", maxText)
		return nil
	}
	var values map[string]string
	if err := json.Unmarshal([]byte(data), &values); err != nil {
		// The decoder's own words may repeat a value.
		s.found.add(name, `write {"Name": "value"}`, "is no JSON object of names and values")
		return nil
	}
	if len(values) > maxHeaders {
		s.found.add(name, "", "has %d headers, more than %d", len(values), maxHeaders)
		return nil
	}
	headers := make(map[string]Secret, len(values))
	for _, header := range slices.Sorted(maps.Keys(values)) {
		canonical, err := checkHeader(header, values[header])
		if _, twice := headers[canonical]; twice && err == nil {
			err = faultf("", "has the header %s twice", canonical)
		}
		s.found.fault(name, err)
		headers[canonical] = NewSecret(values[header])
	}
	return headers
}

// headerFile finds the host's file; hosts have no case.
func (s *secretFiles) headerFile(host string) (name, data string) {
	wanted := headerFiles(host)
	for _, want := range wanted {
		for _, name := range slices.Sorted(maps.Keys(s.files)) {
			if strings.EqualFold(name, want) && len(bytes.TrimSpace(s.files[name])) > 0 {
				return name, string(s.files[name])
			}
		}
	}
	return "", ""
}

func checkHeader(header, value string) (canonical string, _ *fault) {
	if header == "" || len(header) > 128 || strings.ContainsFunc(header, notToken) {
		return "", faultf("", "has a header whose name %s is none", strconv.Quote(clip(header, 40)))
	}
	canonical = canonicalHeader(header)
	switch {
	case slices.Contains(ownHeaders, canonical) || strings.HasPrefix(canonical, "Proxy-"):
		return canonical, faultf("leave it out", "sets the header %s, which the download sets itself", canonical)
	case strings.ContainsFunc(value, func(r rune) bool { return unicode.IsControl(r) && r != '\t' }):
		return canonical, faultf("", "has a line break or control character in the value of %s", canonical)
	}
	return canonical, nil
}

// notToken says whether a header's name can't have the character, RFC 9110 5.6.2.
func notToken(r rune) bool {
	if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
		return false
	}
	return !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
}

// canonicalHeader is net/textproto.CanonicalMIMEHeaderKey for a valid name.
func canonicalHeader(name string) string {
	b := []byte(strings.ToLower(name))
	for i := range b {
		if (i == 0 || b[i-1] == '-') && b[i] >= 'a' && b[i] <= 'z' {
			b[i] -= 'a' - 'A'
		}
	}
	return string(b)
}

// checkPEM wants certificates and nothing but certificates; text between them
// is common in bundles.
func checkPEM(data []byte) *fault {
	count := 0
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			break
		}
		count++
		if block.Type != "CERTIFICATE" {
			return faultf("it holds the certificates of authorities, in PEM", "has something else than a certificate in block %d", count)
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return faultf("", "has a certificate, number %d, that can't be read", count)
		}
	}
	if count == 0 {
		return faultf("it begins with -----BEGIN CERTIFICATE-----; is it encoded twice?", "has no PEM certificate")
	}
	if bytes.Contains(data, []byte("-----BEGIN")) {
		return faultf("", "has a broken block after certificate %d", count)
	}
	return nil
}
