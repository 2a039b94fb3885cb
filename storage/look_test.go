// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"testing"
	"time"
)

func TestTheFirstConnectionsShowWhetherTheyAreEnough(t *testing.T) {
	start := time.Unix(0, 0)
	for _, tt := range []struct {
		name   string
		answer time.Duration // 0: none
		rate   float64       // bytes per second after it
		more   int64
		at     time.Duration // when it's known at the latest
	}{
		{"a fast one is enough", time.Millisecond, 2e9, 0, 12 * time.Millisecond},
		{"a slow one isn't", time.Millisecond, 16e6, secondLimit, 12 * time.Millisecond},
		{"nor one that is far away", 80 * time.Millisecond, 2e9, firstLimit, 80 * time.Millisecond},
		{"nor one that doesn't answer", 0, 0, firstLimit, 11 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var l look
			if !l.begin(start) || l.begin(start) {
				t.Fatal("it doesn't begin once")
			}
			more := int64(0)
			for d := time.Duration(0); d <= tt.at; d += time.Millisecond {
				n := int64(0)
				if tt.answer > 0 && d == tt.answer {
					l.answered(start.Add(d))
				}
				if tt.answer > 0 && d > tt.answer {
					n = int64(tt.rate / 1000)
				}
				if tt.answer == 0 || d >= tt.answer {
					more = max(more, l.next(start.Add(d), n))
				}
			}
			if more != tt.more || l.goesOn() {
				t.Errorf("%d are wanted; it goes on: %v", more, l.goesOn())
			}
		})
	}
}
