// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
)

// maxErrorLen bounds an error's text. The kubelet puts it into an event, whose
// text Kubernetes limits to 1024 bytes (k8s.io/kubernetes
// pkg/apis/core/validation/events.go:NoteLengthLimit), after some 100 of
// containerd's.
const maxErrorLen = 880

// Mistake is one thing that is wrong with what a stranger wrote.
type Mistake struct {
	// Key is the annotation's full key, or the name of a secret's file.
	Key string `json:"key"`
	// Problem says what is wrong, with values quoted, shortened and redacted.
	Problem string `json:"problem"`
	// Hint says what to write instead; it may be empty.
	Hint string `json:"hint,omitempty"`
}

// String is the mistake on one line.
func (m Mistake) String() string {
	text := m.Key + ": " + m.Problem
	if m.Hint != "" {
		text += " (" + m.Hint + ")"
	}
	return text
}

// Error is every mistake found in one piece of input, in a stable order. It is
// errdefs.ErrInvalidArgument, or errdefs.ErrPermissionDenied where the input is
// well formed and the node forbids it.
type Error struct {
	Mistakes []Mistake

	where string // "the pod's annotations"
	kind  error
}

// Error implements error: one line of bounded length, with every mistake as
// far as they fit and a count of the rest.
func (e *Error) Error() string {
	if len(e.Mistakes) == 1 {
		return clip(e.Mistakes[0].String(), maxErrorLen)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d mistakes in %s: ", len(e.Mistakes), e.where)
	each := max(160, (maxErrorLen-b.Len()-80)/max(1, len(e.Mistakes)))
	for i, m := range e.Mistakes {
		line := fmt.Sprintf("(%d) %s; ", i+1, clip(m.String(), each))
		if b.Len()+len(line) > maxErrorLen-60 {
			fmt.Fprintf(&b, "and %d more, see `sedna-storage plan`", len(e.Mistakes)-i)
			return b.String()
		}
		b.WriteString(line)
	}
	return strings.TrimSuffix(b.String(), "; ")
}

// Unwrap gives the kind of error, for errors.Is.
func (e *Error) Unwrap() error {
	if e.kind != nil {
		return e.kind
	}
	return errdefs.ErrInvalidArgument
}

// fault is a Mistake that doesn't know yet which key it belongs to.
type fault struct{ problem, hint string }

func (f *fault) Error() string {
	if f.hint != "" {
		return f.problem + " (" + f.hint + ")"
	}
	return f.problem
}

func (f *fault) Unwrap() error { return errdefs.ErrInvalidArgument }

func faultf(hint, format string, args ...any) *fault {
	return &fault{problem: fmt.Sprintf(format, args...), hint: hint}
}

// findings collects mistakes while parsing goes on.
type findings struct{ mistakes []Mistake }

func (f *findings) add(key, hint, format string, args ...any) {
	f.mistakes = append(f.mistakes, Mistake{Key: key, Problem: fmt.Sprintf(format, args...), Hint: hint})
}

func (f *findings) fault(key string, err *fault) {
	if err != nil {
		f.mistakes = append(f.mistakes, Mistake{Key: key, Problem: err.problem, Hint: err.hint})
	}
}

// err gives the mistakes as one error, or nil. Sorting makes the order that of
// the input's keys, whatever order the checks ran in.
func (f *findings) err(where string, kind error) error {
	if len(f.mistakes) == 0 {
		return nil
	}
	slices.SortFunc(f.mistakes, func(a, b Mistake) int {
		if c := strings.Compare(a.Key, b.Key); c != 0 {
			return c
		}
		return strings.Compare(a.Problem, b.Problem)
	})
	return &Error{Mistakes: slices.Compact(f.mistakes), where: where, kind: kind}
}
