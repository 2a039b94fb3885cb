// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"maps"

	"go.yaml.in/yaml/v3"
)

// resolve follows aliases to what they stand for.
func resolve(n *yaml.Node) *yaml.Node {
	for n != nil && n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

// Merges may nest and be many, but not so that a small file takes long.
const (
	maxMergeDepth = 3
	maxMerges     = 8
)

// pairs calls yield for each key and value of a mapping, then for those that
// are merged in by "<<" and that the mapping hasn't itself. A key that stands
// there twice comes twice.
func pairs(n *yaml.Node, yield func(key, value *yaml.Node)) {
	pairsTo(n, yield, map[string]bool{}, maxMergeDepth)
}

func pairsTo(n *yaml.Node, yield func(key, value *yaml.Node), above map[string]bool, depth int) {
	n = resolve(n)
	if n == nil || n.Kind != yaml.MappingNode || depth == 0 {
		return
	}
	seen := maps.Clone(above)
	var merged []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], resolve(n.Content[i+1])
		switch {
		case key.Tag == "!!merge" && value.Kind == yaml.SequenceNode:
			merged = append(merged, value.Content...)
		case key.Tag == "!!merge":
			merged = append(merged, value)
		case !above[key.Value]:
			seen[key.Value] = true
			yield(key, value)
		}
	}
	for _, m := range merged[:min(len(merged), maxMerges)] {
		pairsTo(m, yield, seen, depth-1)
	}
}

// child finds a value of a mapping by its key, or nil.
func child(n *yaml.Node, name string) *yaml.Node {
	var found *yaml.Node
	pairs(n, func(key, value *yaml.Node) {
		if found == nil && key.Value == name {
			found = value
		}
	})
	return found
}

// text is a scalar's text, or "".
func text(n *yaml.Node) string {
	if n == nil || n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		return ""
	}
	return n.Value
}

func line(n *yaml.Node) int {
	if n == nil {
		return 0
	}
	return n.Line
}

// items are the elements of a sequence.
func items(n *yaml.Node) []*yaml.Node {
	if n == nil || n.Kind != yaml.SequenceNode {
		return nil
	}
	out := make([]*yaml.Node, len(n.Content))
	for i, item := range n.Content {
		out[i] = resolve(item)
	}
	return out
}
