// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"strings"
	"testing"
	"time"
)

func TestIncludeAndExcludeSelectFiles(t *testing.T) {
	for _, c := range []struct {
		include, exclude, name string
		want                   bool
	}{
		{"", "", "a/b", true},
		{"*.bin", "", "a.bin", true},
		{"*.bin", "", "d/a.bin", false},
		{"**/*.bin", "", "a.bin", true},
		{"**/*.bin", "", "d/e/a.bin", true},
		{"d/**", "", "d/e/a.bin", true},
		{"d/**", "", "e/d/a", false},
		{"d/**/a", "", "d/a", true},
		{"d/**/a", "", "d/x/y/a", true},
		{"**/x/**/y", "", "a/x/b/x/c/y", true},
		{"**/x/**/y", "", "a/x/b/z", false},
		{"[ab]?.t*", "", "b1.txt", true},
		{"*.bin;*.txt", "", "a.txt", true},
		{"", "*.md", "a.md", false},
		{"**", "**/tmp/**", "a/tmp/b", false},
		{"*.bin", "a.*", "a.bin", false},
		{"**", "", "a", true},
	} {
		include, err := ParsePatterns(c.include)
		if err != nil {
			t.Fatal(err)
		}
		exclude, err := ParsePatterns(c.exclude)
		if err != nil {
			t.Fatal(err)
		}
		d := Download{Include: include, Exclude: exclude}
		if d.Selects(c.name) != c.want {
			t.Errorf("include %q exclude %q selects %q: %v", c.include, c.exclude, c.name, !c.want)
		}
	}
}

func TestAHostilePatternMatchesInBoundedTime(t *testing.T) {
	pattern, err := ParsePatterns(strings.Repeat("**/a*/", 200) + "b")
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	d := Download{Include: pattern}
	d.Selects(strings.TrimSuffix(strings.Repeat("a/", 2000), "/"))
	// Not a measurement: backtracking without bounds never ends here.
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("took %v", took)
	}
}
