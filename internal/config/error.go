// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/containerd/errdefs"
)

// Mistake is one thing that is wrong in a file.
type Mistake struct {
	Line    int    // from 1; 0 where it belongs to no line
	Key     string // as "[storage] max_bytes"
	Problem string
}

// Error is every mistake of one file, by line. It is
// errdefs.ErrInvalidArgument.
type Error struct {
	Path     string
	Mistakes []Mistake
}

// Error implements error: one line, the first few mistakes and how many more.
func (e *Error) Error() string {
	const most = 5
	var lines []string
	for i, m := range e.Mistakes {
		if i == most {
			lines = append(lines, fmt.Sprintf("and %d more", len(e.Mistakes)-most))
			break
		}
		at := e.Path
		if m.Line > 0 {
			at = fmt.Sprintf("%s:%d", e.Path, m.Line)
		}
		lines = append(lines, oneLine(strings.Join(nonEmpty(at, m.Key, m.Problem), ": ")))
	}
	return strings.Join(lines, "; ")
}

// Unwrap gives the kind of error, for errors.Is.
func (e *Error) Unwrap() error { return errdefs.ErrInvalidArgument }

// oneLine replaces what would break a line or colour a terminal; keys and the
// TOML library's messages repeat the file.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return '?'
		}
		return r
	}, text)
}

func nonEmpty(texts ...string) []string {
	return slices.DeleteFunc(texts, func(s string) bool { return s == "" })
}

// quote shows a value of the file, shortened and on one line.
func quote(value any) string {
	text := fmt.Sprintf("%v", value)
	if s, ok := value.(string); ok {
		text = fmt.Sprintf("%q", s)
	}
	if len(text) > 80 {
		text = strings.ToValidUTF8(text[:77], "") + "..."
	}
	return text
}
