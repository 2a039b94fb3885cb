// SPDX-License-Identifier: Apache-2.0

package plan

import "fmt"

// URL is a source of bytes: scheme s3 (obs is s3 too), http or https. Its
// String, JSON and every fmt verb leave out userinfo and show the values of
// the query redacted.
type URL struct {
	// Scheme is "s3", "http" or "https", in lower case.
	Scheme string
	// Host is the bucket for s3, else the host with its port, as written.
	Host string
	// Path is the object key or prefix for s3, literal and without the leading
	// slash; the decoded path with its leading slash for http and https.
	Path string

	raw string
}

// Reveal returns the URL as the user wrote it, secrets included.
func (u URL) Reveal() string { return u.raw }

// Format implements fmt.Formatter, so that no verb reaches the secrets.
// String implements fmt.Stringer: the redacted form.
func (u URL) String() string { return u.Scheme + "://" + u.Host } // TODO: with the path

func (u URL) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(u.String())) }

// MarshalText implements encoding.TextMarshaler: the redacted form.
func (u URL) MarshalText() ([]byte, error) { return []byte(u.String()), nil }
