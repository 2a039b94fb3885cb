// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"testing"
	"time"
)

// world says what a number of connections brings, bytes per second.
type world func(n int64) float64

// settle runs a search in a world and returns the number of connections that
// it kept for most of the second half of a minute.
func (w world) settle(most int64, busy func(n int64) bool) int64 {
	s := search{ramp: true}
	limit := min(firstLimit, most)
	now := sample{at: time.Unix(0, 0)}
	spent := map[int64]int{}
	s.begin(now)
	for i := range int(time.Minute / tick) {
		now.at = now.at.Add(tick)
		now.score += int64(w(limit) * tick.Seconds())
		limit = s.step(limit, most, now, busy(limit))
		if i > int(time.Minute/tick)/2 {
			spent[limit]++
		}
	}
	best := int64(0)
	for n, ticks := range spent {
		if ticks > spent[best] {
			best = n
		}
	}
	return best
}

func TestAsManyConnectionsAsHelp(t *testing.T) {
	never := func(int64) bool { return false }
	for _, tt := range []struct {
		name     string
		world    world
		busy     func(int64) bool
		most     int64
		from, to int64
	}{
		{"each is slow: all that are allowed", func(n int64) float64 { return float64(n) * 16e6 }, never, 32, 32, 32},
		{"one fills the link: one", func(int64) float64 { return 1e9 }, never, 32, 1, 1},
		{"eight fill it: eight", func(n int64) float64 { return min(float64(n)*16e6, 128e6) }, never, 32, 8, 8},
		{"more hurt: few", func(n int64) float64 { return 1e9 / float64(n) }, never, 32, 1, 1},
		{"this machine is busy: no more than at first", func(n int64) float64 { return min(float64(n)*5e8, 1e9) }, func(n int64) bool { return n >= 2 }, 32, 2, 4},
		{"one is allowed", func(n int64) float64 { return float64(n) * 16e6 }, never, 1, 1, 1},
		{"an odd number is allowed", func(n int64) float64 { return float64(n) * 16e6 }, never, 11, 11, 11},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.world.settle(tt.most, tt.busy); got < tt.from || got > tt.to {
				t.Errorf("it kept %d connections, want %d to %d", got, tt.from, tt.to)
			}
		})
	}
}

func TestTheFirstConnectionsComeFast(t *testing.T) {
	s := search{ramp: true}
	now := sample{at: time.Unix(0, 0)}
	limit := int64(firstLimit)
	for range 3 {
		now.at = now.at.Add(tick)
		now.score += 1e6
		limit = s.step(limit, 32, now, false)
	}
	if limit != 32 {
		t.Errorf("after three ticks there are %d", limit)
	}
}
