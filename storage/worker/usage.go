// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"strconv"
	"time"
)

// Usage is what a worker took. 0 is what the kernel doesn't count.
type Usage struct {
	Memory int64         `json:"memory,omitempty"` // at most at one time, bytes, page cache included
	CPU    time.Duration `json:"cpu,omitempty"`    // ns
}

// Usage reads what the group's processes took so far; the counters go with the
// group.
func (g *Group) Usage() Usage {
	var u Usage
	for _, dir := range g.Dirs {
		for _, file := range []string{"memory.max_usage_in_bytes", "memory.peak"} {
			u.Memory = max(u.Memory, number(dir, file))
		}
		u.CPU = max(u.CPU,
			time.Duration(number(dir, "cpuacct.usage")),
			time.Duration(counter(dir, "cpu.stat", "usage_usec"))*time.Microsecond)
	}
	return u
}

// number reads a file that has one.
func number(dir, file string) int64 {
	text := words(dir, file)
	if len(text) != 1 {
		return 0
	}
	n, err := strconv.ParseInt(text[0], 10, 64)
	if err != nil {
		return 0
	}
	return n
}
