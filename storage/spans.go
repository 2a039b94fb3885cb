// SPDX-License-Identifier: Apache-2.0

package storage

import "slices"

// span is the bytes from off up to end.
type span struct{ off, end int64 }

func (s span) len() int64 { return s.end - s.off }

// spans is a set of bytes: sorted, with gaps between its members.
type spans []span

// add puts s into the set. What touches becomes one.
func (l *spans) add(s span) {
	if s.off >= s.end {
		return
	}
	list := *l
	// Writers append where they stand, so some member mostly ends at s.off.
	i, _ := slices.BinarySearchFunc(list, s.off, func(m span, off int64) int {
		switch {
		case m.end < off:
			return -1
		case m.end > off:
			return 1
		}
		return 0
	})
	j := i
	for j < len(list) && list[j].off <= s.end {
		s.off, s.end = min(s.off, list[j].off), max(s.end, list[j].end)
		j++
	}
	*l = slices.Replace(list, i, j, s)
}

// take cuts up to n bytes off the front of the set.
func (l *spans) take(n int64) (span, bool) {
	list := *l
	if len(list) == 0 {
		return span{}, false
	}
	s := list[0]
	if s.len() <= n {
		*l = slices.Delete(list, 0, 1)
		return s, true
	}
	list[0].off = s.off + n
	return span{s.off, s.off + n}, true
}

// sum is how many bytes the set holds.
func (l spans) sum() (n int64) {
	for _, s := range l {
		n += s.len()
	}
	return n
}

// missing is what of [0, size) isn't in the set.
func (l spans) missing(size int64) spans {
	var out spans
	at := int64(0)
	for _, s := range l {
		if s.off > at {
			out = append(out, span{at, min(s.off, size)})
		}
		at = max(at, s.end)
	}
	if at < size {
		out = append(out, span{at, size})
	}
	return out
}

// front is how many bytes from 0 on are in the set without a gap.
func (l spans) front() int64 {
	if len(l) == 0 || l[0].off > 0 {
		return 0
	}
	return l[0].end
}
