// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"

	"github.com/BurntSushi/toml"
)

// maxFile bounds what is read: a node's configuration has a few kilobytes.
const maxFile = 1 << 20

// Load reads the file at path over the defaults; "" gives the defaults. A file
// that is missing is an error, for somebody named it. All mistakes of a file
// come together in one *Error.
func Load(path string) (*Config, error) {
	if path == "" {
		return Default(), nil
	}
	source, err := readFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the node's configuration: %w", err)
	}
	return Parse(path, source)
}

func readFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return "", err
	}
	if len(data) > maxFile {
		return "", fmt.Errorf("%s has more than %d bytes", path, maxFile)
	}
	return string(data), nil
}

// Parse is Load for a file's text; path is for errors.
func Parse(path, source string) (*Config, error) {
	tree := map[string]any{}
	if _, err := toml.Decode(source, &tree); err != nil {
		return nil, &Error{Path: path, Mistakes: []Mistake{syntaxMistake(err)}}
	}
	c := Default()
	c.Path = path
	d := &decoder{lines: findLines(source)}
	d.table("", tree, reflect.ValueOf(c).Elem())
	c.settleGrouping(tree, d)
	if len(d.mistakes) == 0 { // an impossible value may be one that didn't parse
		c.validate(d)
	}
	if len(d.mistakes) > 0 {
		slices.SortStableFunc(d.mistakes, func(a, b Mistake) int { return cmp.Compare(a.Line, b.Line) })
		return nil, &Error{Path: path, Mistakes: d.mistakes}
	}
	return c, nil
}

func syntaxMistake(err error) Mistake {
	var parse toml.ParseError
	if errors.As(err, &parse) {
		return Mistake{Line: parse.Position.Line, Key: parse.LastKey, Problem: "not TOML: " + parse.Message}
	}
	return Mistake{Problem: "not TOML: " + err.Error()}
}

// settleGrouping lets gVisor's own key speak where ours doesn't.
func (c *Config) settleGrouping(tree map[string]any, d *decoder) {
	if c.Grouping == nil {
		return
	}
	table, _ := tree["shim"].(map[string]any)
	if _, ours := table["grouping"]; !ours {
		c.Shim.Grouping = *c.Grouping
		return
	}
	if c.Shim.Grouping != *c.Grouping {
		d.add("grouping", "contradicts [shim] grouping, which counts; remove it")
	}
}
