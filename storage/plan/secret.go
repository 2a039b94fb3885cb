// SPDX-License-Identifier: Apache-2.0

package plan

import "fmt"

// redacted stands where a secret would.
const redacted = "REDACTED"

// Secret is text that can't print itself: String, GoString, every fmt verb and
// MarshalJSON show REDACTED (or nothing when it is empty). Only Reveal gives
// the text, so that each use of it can be found by name.
type Secret struct{ text string }

// NewSecret keeps text.
func NewSecret(text string) Secret { return Secret{text} }

// Reveal returns the text.
func (s Secret) Reveal() string { return s.text }

// IsZero says whether there is no text.
func (s Secret) IsZero() bool { return s.text == "" }

// String implements fmt.Stringer.
func (s Secret) String() string {
	if s.text == "" {
		return ""
	}
	return redacted
}

// Format implements fmt.Formatter, so that no verb reaches the text.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(s.String())) }

// MarshalText implements encoding.TextMarshaler, and so JSON's and YAML's.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
