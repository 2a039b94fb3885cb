// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"path"
	"slices"
	"strings"
)

// Selects says whether the file at a path relative to the URL is wanted:
// matched by some include pattern, if there are any, and by no exclude pattern.
func (d *Download) Selects(relative string) bool {
	segments := strings.Split(relative, "/")
	matches := func(pattern string) bool { return matchSegments(strings.Split(pattern, "/"), segments) }
	if len(d.Include) > 0 && !slices.ContainsFunc(d.Include, matches) {
		return false
	}
	return !slices.ContainsFunc(d.Exclude, matches)
}

// matchSegments is path.Match for each segment, with "**" for any number of
// them. After a "**" the earliest match of what follows it is as good as any,
// so one point to return to is enough and the time stays bounded.
func matchSegments(pattern, segments []string) bool {
	p, s := 0, 0
	backP, backS := -1, 0
	for s < len(segments) {
		if p < len(pattern) && pattern[p] == "**" {
			backP, backS = p, s
			p++
			continue
		}
		if p < len(pattern) {
			if ok, _ := path.Match(pattern[p], segments[s]); ok {
				p, s = p+1, s+1
				continue
			}
		}
		if backP < 0 {
			return false
		}
		backS++
		p, s = backP+1, backS
	}
	for p < len(pattern) && pattern[p] == "**" {
		p++
	}
	return p == len(pattern)
}
