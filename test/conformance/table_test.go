// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

const tableFile = "results.tsv"

// row is a spec's line in the table. A result that depends on a race lists all
// that are possible: "pass|skip".
type row struct {
	spec   string
	result map[string]string // by the shim's name
	why    string            // it doesn't pass with one of them
}

// columns are the shims, in the table's order.
var columns = []string{"sedna", "runsc"}

func readTable() ([]row, error) {
	data, err := os.ReadFile(tableFile)
	if err != nil {
		return nil, err
	}
	var rows []row
	for i, line := range strings.Split(strings.TrimSuffix(string(data), "\n"), "\n") {
		if strings.HasPrefix(line, "#") {
			continue
		}
		cells := strings.Split(line, "\t")
		if len(cells) != len(columns)+2 {
			return nil, fmt.Errorf("%s:%d: %d cells, want spec, %s, why", tableFile, i+1, len(cells), strings.Join(columns, ", "))
		}
		r := row{spec: cells[0], result: map[string]string{}, why: cells[len(cells)-1]}
		for c, name := range columns {
			r.result[name] = cells[c+1]
		}
		rows = append(rows, r)
	}
	return rows, nil
}

func writeTable(rows []row) error {
	var out strings.Builder
	fmt.Fprintf(&out, "# spec\t%s\twhy it isn't pass\n", strings.Join(columns, "\t"))
	for _, r := range slices.SortedFunc(slices.Values(rows), func(a, b row) int { return strings.Compare(a.spec, b.spec) }) {
		cells := []string{r.spec}
		for _, name := range columns {
			cells = append(cells, r.result[name])
		}
		fmt.Fprintln(&out, strings.Join(append(cells, r.why), "\t"))
	}
	return os.WriteFile(tableFile, []byte(out.String()), 0o644)
}

// byName gives the outcomes by spec. Specs of one name, if there are any, count
// as one that does as well as the worst.
func byName(outcomes []outcome) map[string]outcome {
	order := []string{pass, skip, fail}
	found := map[string]outcome{}
	for _, o := range outcomes {
		before, twice := found[o.spec]
		if !twice || slices.Index(order, o.state) > slices.Index(order, before.state) {
			found[o.spec] = o
		}
	}
	return found
}

// tableOrNone reads the table, which may be missing when it's to be written.
func tableOrNone(t *testing.T) []row {
	t.Helper()
	rows, err := readTable()
	if err != nil && (!os.IsNotExist(err) || !*update) {
		t.Fatal(err)
	}
	return rows
}

// disappointing lists the specs of a run that ended worse than the table says.
func disappointing(rows []row, outcomes []outcome) (names []string) {
	found := byName(outcomes)
	for _, r := range rows {
		if o, ran := found[r.spec]; ran && worse(o.state, r.result[*shim]) {
			names = append(names, r.spec)
		}
	}
	return names
}

// judge compares a run with the table, or updates it.
func judge(t *testing.T, outcomes []outcome) {
	t.Helper()
	rows := tableOrNone(t)
	found := byName(outcomes)
	if *update {
		if err := writeTable(merge(rows, found)); err != nil {
			t.Fatal(err)
		}
		return
	}
	for _, r := range rows {
		o, ran := found[r.spec]
		delete(found, r.spec)
		want := r.result[*shim]
		switch {
		case !ran && *focus == "" && want != "":
			t.Errorf("%s: didn't run, the table says %s", r.spec, want)
		case ran && worse(o.state, want):
			t.Errorf("%s: %s after %v, the table says %s: %s", r.spec, o.state, o.took, want, o.message)
		case ran && !allows(want, o.state):
			t.Logf("%s: %s, better than the table's %s", r.spec, o.state, want)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		t.Errorf("%s: isn't in the table", name)
	}
}

// merge puts a run's results into the shim's column.
func merge(rows []row, found map[string]outcome) []row {
	for i, r := range rows {
		o, ran := found[r.spec]
		delete(found, r.spec)
		if ran && !allows(r.result[*shim], o.state) {
			rows[i].result[*shim] = o.state
		}
	}
	for name, o := range found {
		rows = append(rows, row{spec: name, result: map[string]string{*shim: o.state}})
	}
	return rows
}

// allows says whether a result is one that the table has.
func allows(want, state string) bool { return slices.Contains(strings.Split(want, "|"), state) }

// worse says whether a result isn't what the table has, and not pass either.
func worse(state, want string) bool { return state != pass && !allows(want, state) }

// count says how many specs ended how.
func count(outcomes []outcome) string {
	states := map[string]int{}
	for _, o := range outcomes {
		states[o.state]++
	}
	return fmt.Sprintf("%d specs, %d passed, %d failed, %d skipped", len(outcomes), states[pass], states[fail], states[skip])
}
