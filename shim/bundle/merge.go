// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// member is one key and value of a JSON object.
type member struct {
	key   string
	value json.RawMessage
}

// merge returns raw with what differs between before and after, three JSON
// values of one shape, where raw may hold more than the other two.
func merge(raw, before, after json.RawMessage) (json.RawMessage, error) {
	switch {
	case bytes.Equal(before, after):
		return raw, nil
	case isA('{', raw, before, after):
		return mergeObjects(raw, before, after)
	case isA('[', raw, before, after):
		return mergeArrays(raw, before, after)
	}
	return after, nil
}

// isA says whether all values start with the delimiter.
func isA(delim byte, values ...json.RawMessage) bool {
	for _, v := range values {
		if v = bytes.TrimLeft(v, " \t\r\n"); len(v) == 0 || v[0] != delim {
			return false
		}
	}
	return true
}

// mergeObjects keeps the members of raw in their order. One that neither
// before nor after has is unknown to us, or a zero that our encoding leaves out.
func mergeObjects(raw, before, after json.RawMessage) (json.RawMessage, error) {
	in, err := splitObject(raw)
	if err != nil {
		return nil, err
	}
	old, err := splitObject(before)
	if err != nil {
		return nil, err
	}
	edited, err := splitObject(after)
	if err != nil {
		return nil, err
	}
	was, is := index(old), index(edited)
	var out []member
	for _, m := range in {
		oldValue, wasThere := was[m.key]
		newValue, isThere := is[m.key]
		delete(is, m.key)
		switch {
		case isThere && wasThere:
			merged, err := merge(m.value, oldValue, newValue)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", m.key, err)
			}
			out = append(out, member{m.key, merged})
		case isThere:
			out = append(out, member{m.key, newValue})
		case !wasThere:
			out = append(out, m)
		}
	}
	for _, m := range edited {
		// A zero that raw left out and our encoding writes isn't an edit.
		if _, left := is[m.key]; left && !bytes.Equal(was[m.key], m.value) {
			out = append(out, m)
		}
	}
	return joinObject(out)
}

// mergeArrays takes each element of after from raw if it was there before:
// unchanged, or changed but with the same destination, as mounts have it.
func mergeArrays(raw, before, after json.RawMessage) (json.RawMessage, error) {
	in, err := splitArray(raw)
	if err != nil {
		return nil, err
	}
	old, err := splitArray(before)
	if err != nil {
		return nil, err
	}
	edited, err := splitArray(after)
	if err != nil {
		return nil, err
	}
	if len(in) != len(old) {
		return after, nil
	}
	found := match(old, edited)
	out := make([]json.RawMessage, len(edited))
	for i, value := range edited {
		if found[i] < 0 {
			out[i] = value
			continue
		}
		if out[i], err = merge(in[found[i]], old[found[i]], value); err != nil {
			return nil, fmt.Errorf("element %d: %w", i, err)
		}
	}
	return joinArray(out), nil
}

// match finds for each edited element the old one it comes from, or -1: first
// by equality, then by destination, each old one used once.
func match(old, edited []json.RawMessage) []int {
	found := make([]int, len(edited))
	for i := range found {
		found[i] = -1
	}
	pair := func(key func(json.RawMessage) string) {
		free := map[string][]int{}
		for i, value := range old {
			if k := key(value); k != "" {
				free[k] = append(free[k], i)
			}
		}
		for _, i := range found { // those of an earlier round are taken
			if i >= 0 {
				k := key(old[i])
				free[k] = without(free[k], i)
			}
		}
		for i, value := range edited {
			k := key(value)
			if found[i] < 0 && len(free[k]) > 0 {
				found[i], free[k] = free[k][0], free[k][1:]
			}
		}
	}
	pair(func(v json.RawMessage) string { return string(v) })
	pair(destination)
	return found
}

// destination is the place of a mount, "" for anything else.
func destination(value json.RawMessage) string {
	if !isA('{', value) {
		return ""
	}
	var mount struct {
		Destination string `json:"destination"`
	}
	if json.Unmarshal(value, &mount) != nil {
		return ""
	}
	return mount.Destination
}

func without(list []int, x int) []int {
	var out []int
	for _, v := range list {
		if v != x {
			out = append(out, v)
		}
	}
	return out
}
