// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"testing"
	"time"
)

func TestARateIsThatOfTheLastSecondsAndNotOfTheLastBurst(t *testing.T) {
	now := time.Now()
	s := newSpeed(0, now)
	for i, c := range []struct {
		after time.Duration
		bytes int64
		want  float64
	}{
		{0, 0, 0},
		{500 * time.Millisecond, 50, 100},
		{time.Second, 100, 100},
		{1010 * time.Millisecond, 101, 100}, // the last one, when it ends
		{4 * time.Second, 100 + 600, 200},
		{10 * time.Second, 700, 0},
		{13 * time.Second, 1000, 100},
	} {
		if got := s.at(c.bytes, now.Add(c.after)); got < c.want-1 || got > c.want+1 {
			t.Errorf("%d: %.0f bytes per second, want %.0f", i, got, c.want)
		}
	}
	if len(s) > 3 {
		t.Errorf("it keeps %d marks", len(s))
	}
}
