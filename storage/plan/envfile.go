// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"bytes"
	"fmt"
	"strings"
)

// ParseEnvFile reads NAME=VALUE lines, the form of an [[endpoint]]'s
// credentials_file, for ParseCredentials. Blank lines and lines that begin with
// # are skipped, "export " and one pair of quotes around a value are dropped,
// nothing is expanded. No error repeats a line.
func ParseEnvFile(data []byte) (map[string][]byte, error) {
	var found findings
	files := map[string][]byte{}
	number := 0
	for line := range bytes.SplitSeq(data, []byte("\n")) {
		number++
		text := strings.TrimSpace(string(line))
		if text == "" || text[0] == '#' {
			continue
		}
		name, value, ok := strings.Cut(strings.TrimPrefix(text, "export "), "=")
		name = strings.TrimSpace(name)
		switch _, twice := files[name]; {
		case !ok || name == "":
			found.add(fmt.Sprintf("line %d", number), "write NAME=VALUE", "has no name and value")
		case twice:
			found.add(fmt.Sprintf("line %d", number), "", "sets a name that an earlier line sets")
		default:
			files[name] = []byte(unquote(strings.TrimSpace(value)))
		}
	}
	if err := found.err("the credentials file", nil); err != nil {
		return nil, err
	}
	return files, nil
}

func unquote(value string) string {
	if n := len(value); n >= 2 && value[0] == value[n-1] && (value[0] == '"' || value[0] == '\'') {
		return value[1 : n-1]
	}
	return value
}
