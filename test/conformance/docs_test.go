// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

const (
	docsFile   = "../../docs/conformance.md"
	docsBegin  = "<!-- from test/conformance/results.tsv -->\n"
	docsEnd    = "<!-- end -->"
	peersLimit = 6 // specs that ours passes and gVisor's shim doesn't, at least
)

// render shows what the table says: the sums, and every spec that doesn't pass
// with both shims.
func render(rows []row) string {
	var out strings.Builder
	fmt.Fprintf(&out, "\n| | ours | gVisor's shim |\n|---|---|---|\n")
	for _, state := range []string{pass, fail, skip, racy} {
		fmt.Fprintf(&out, "| %s | %d | %d |\n", cell(state), tally(rows, "sedna", state), tally(rows, "runsc", state))
	}
	fmt.Fprintf(&out, "\n| spec | ours | gVisor's shim | why |\n|---|---|---|---|\n")
	for _, r := range rows {
		if r.why != "" {
			fmt.Fprintf(&out, "| %s | %s | %s | %s |\n",
				cell(strings.TrimPrefix(r.spec, "[k8s.io] ")), cell(r.result["sedna"]), cell(r.result["runsc"]), cell(r.why))
		}
	}
	out.WriteString("\n")
	return out.String()
}

// cell is text that can stand in a cell.
func cell(text string) string { return strings.ReplaceAll(text, "|", " or ") }

// racy is the result of specs that a race decides.
const racy = pass + "|" + skip

func tally(rows []row, shim, state string) (n int) {
	for _, r := range rows {
		if r.result[shim] == state {
			n++
		}
	}
	return n
}

// split gives the documentation before, in and after the part that is rendered.
func split(t *testing.T) (before, rendered, after string) {
	t.Helper()
	data, err := os.ReadFile(docsFile)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(data), docsBegin)
	rendered, after, ended := strings.Cut(rest, docsEnd)
	if !ok || !ended {
		t.Fatalf("%s lacks %q or %q", docsFile, docsBegin, docsEnd)
	}
	return before, rendered, after
}

func updateDocs(t *testing.T, rows []row) {
	t.Helper()
	before, _, after := split(t)
	text := before + docsBegin + render(rows) + docsEnd + after
	if err := os.WriteFile(docsFile, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestTheDocumentationShowsTheTable(t *testing.T) {
	rows, err := readTable()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		updateDocs(t, rows)
	}
	if _, rendered, _ := split(t); rendered != render(rows) {
		t.Errorf("%s isn't what the table says: go test ./test/conformance -update", docsFile)
	}
}

// This is what the build fails for: `make conformance` holds each run to the
// table, and this the table to gVisor's shim.
func TestOursPassesWhateverGVisorsShimPassesAndMore(t *testing.T) {
	rows, err := readTable()
	if err != nil {
		t.Fatal(err)
	}
	more := 0
	for _, r := range rows {
		ours, theirs := r.result["sedna"], r.result["runsc"]
		if theirs == pass && ours != pass {
			t.Errorf("%s: passes with gVisor's shim, %s with ours", r.spec, ours)
		}
		if theirs == fail && ours == pass {
			more++
		}
	}
	if more < peersLimit {
		t.Errorf("only %d specs pass with ours alone", more)
	}
}

func TestEverySpecThatDoesNotPassHasItsReason(t *testing.T) {
	rows, err := readTable()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		for _, name := range columns {
			if state := r.result[name]; state != pass && state != fail && state != skip && state != racy {
				t.Errorf("%s: the result with %s is %q", r.spec, name, state)
			}
		}
		passes := r.result["sedna"] == pass && r.result["runsc"] == pass
		if passes != (r.why == "") {
			t.Errorf("%s: ours %s, gVisor's %s, why %q", r.spec, r.result["sedna"], r.result["runsc"], r.why)
		}
	}
}
