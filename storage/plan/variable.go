// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"encoding/json"
	"fmt"
	"path"
	"strings"
)

// Value is one part of a variable; the parts are joined by ";".
type Value struct {
	// Download is a path below the download root; it follows where a container
	// mounts the volume. Literal is everything else. Exactly one is set.
	Download string
	// Literal is used as it is: a path below /hostpath, a path in the
	// container, or the URL that a workload writes to, held as a Secret since
	// it may have a presigned query. String and JSON show it redacted.
	Literal Secret
}

// in gives the part for a container that sees the downloads at root.
func (v Value) in(root string) string {
	if v.Download != "" {
		return path.Join(root, v.Download)
	}
	return v.Literal.Reveal()
}

// String implements fmt.Stringer: a download's path below the root, or the
// literal, of which a URL is redacted.
func (v Value) String() string {
	if v.Download != "" {
		return v.Download
	}
	literal := v.Literal.Reveal()
	if strings.HasPrefix(literal, "/") {
		return literal
	}
	u, err := ParseURL(literal)
	if err != nil {
		return v.Literal.String()
	}
	return u.String()
}

// Format implements fmt.Formatter, so that no verb reaches the secret.
func (v Value) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(v.String())) }

// MarshalJSON shows what String shows.
func (v Value) MarshalJSON() ([]byte, error) {
	if v.Download != "" {
		return json.Marshal(map[string]string{"download": v.Download})
	}
	return json.Marshal(map[string]string{"literal": v.String()})
}

// Value is what the variable holds in a container that sees the downloads at
// root. It may hold a presigned URL: hand it to the container and nowhere else.
func (v Variable) Value(root string) string { return v.join(root, Value.in) }

// Redacted is Value without secrets, for people.
func (v Variable) Redacted(root string) string {
	return v.join(root, func(part Value, root string) string {
		if part.Download != "" {
			return part.in(root)
		}
		return part.String()
	})
}

func (v Variable) join(root string, part func(Value, string) string) string {
	parts := make([]string, len(v.Values))
	for i, value := range v.Values {
		parts[i] = part(value, root)
	}
	return strings.Join(parts, ";")
}
