// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"regexp"
	"strings"
)

var (
	tableLine = regexp.MustCompile(`^\s*(\[\[?)\s*([^\]]+?)\s*\]`)
	keyLine   = regexp.MustCompile(`^\s*([A-Za-z0-9_."' -]+?)\s*=`)
)

// findLines gives the line of each key of a well-formed file, by paths like
// "storage.limits.cpu" and "host_path[0].path". The TOML library knows
// positions too, but only the last one of a key in an array of tables. Keys in
// an inline table have the line of what holds it, see lineOf.
func findLines(source string) map[string]int {
	lines := map[string]int{}
	count := map[string]int{}
	table, closing := "", ""
	for i, line := range strings.Split(source, "\n") {
		if closing != "" { // in a text of several lines
			if strings.Contains(line, closing) {
				closing = ""
			}
			continue
		}
		if m := tableLine.FindStringSubmatch(line); m != nil {
			name := bare(m[2])
			table = name
			if m[1] == "[[" {
				table = fmt.Sprintf("%s[%d]", name, count[name])
				count[name]++
			}
			note(lines, table, i+1)
			continue
		}
		if m := keyLine.FindStringSubmatch(line); m != nil {
			note(lines, join(table, bare(m[1])), i+1)
			closing = opensText(line[len(m[0]):])
		}
	}
	return lines
}

func note(lines map[string]int, key string, line int) {
	if _, known := lines[key]; !known {
		lines[key] = line
	}
}

// opensText returns the quotes that will end a text which begins on a line and
// doesn't end there.
func opensText(rest string) string {
	rest = strings.TrimSpace(rest)
	for _, quotes := range []string{`"""`, `'''`} {
		if after, ok := strings.CutPrefix(rest, quotes); ok && !strings.Contains(after, quotes) {
			return quotes
		}
	}
	return ""
}

// bare writes a dotted key without quotes and blanks.
func bare(key string) string {
	return strings.NewReplacer(`"`, "", "'", "", " ", "", "\t", "").Replace(key)
}

func join(table, key string) string {
	if table == "" {
		return key
	}
	return table + "." + key
}

// lineOf finds the line of a key, or of the nearest table around it.
func lineOf(lines map[string]int, key string) int {
	for {
		if line, ok := lines[key]; ok {
			return line
		}
		i := strings.LastIndexAny(key, ".[")
		if i < 0 {
			return 0
		}
		key = key[:i]
	}
}
