// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"math/rand/v2"
	"testing"
)

func TestSpansAreASetOfBytes(t *testing.T) {
	const size = 64
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 1))
		var set spans
		var model [size]bool
		for range 20 {
			off := r.Int64N(size)
			s := span{off, off + r.Int64N(size-off+1)}
			set.add(s)
			for i := s.off; i < s.end; i++ {
				model[i] = true
			}
			check(t, set, model[:])
		}
		if s, ok := set.take(r.Int64N(8) + 1); ok {
			for i := s.off; i < s.end; i++ {
				if !model[i] {
					t.Fatalf("byte %d was taken and not there", i)
				}
				model[i] = false
			}
		}
		check(t, set, model[:])
	}
}

func check(t *testing.T, set spans, model []bool) {
	t.Helper()
	var got [64]bool
	end := int64(-1)
	for _, s := range set {
		if s.off <= end || s.end <= s.off {
			t.Fatalf("%v is unsorted, empty or not merged", set)
		}
		end = s.end
		for i := s.off; i < s.end; i++ {
			got[i] = true
		}
	}
	front, sum := int64(0), int64(0)
	for i, in := range model {
		if got[i] != in {
			t.Fatalf("byte %d: %v", i, set)
		}
		if in {
			sum++
			if front == int64(i) {
				front++
			}
		}
	}
	if set.front() != front || set.sum() != sum || set.missing(64).sum() != 64-sum {
		t.Fatalf("%v: front %d, sum %d, missing %v", set, set.front(), set.sum(), set.missing(64))
	}
}
