// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	cgroup1 "github.com/containerd/cgroups/v3/cgroup1/stats"
	cgroup2 "github.com/containerd/cgroups/v3/cgroup2/stats"
)

// oomCounter is where the kernel counts the kills of a control group for want of
// memory. The zero value counts nothing.
type oomCounter struct {
	file    string
	unified bool // version 2
}

// findOOMCounter finds the counter of a process. On a hybrid machine it is that
// of the hierarchy which has the memory controller.
func findOOMCounter(pid uint32) (oomCounter, error) {
	file, err := os.Open(filepath.Join(procRoot, strconv.FormatUint(uint64(pid), 10), "cgroup"))
	if err != nil {
		return oomCounter{}, fmt.Errorf("find the control group of the sandbox: %w", err)
	}
	defer file.Close()
	var found oomCounter
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		// hierarchy-ID:controller-list:cgroup-path, cgroups(7)
		parts := strings.SplitN(lines.Text(), ":", 3)
		if len(parts) != 3 || strings.HasPrefix(parts[2], "/..") {
			continue // outside of this cgroup namespace
		}
		switch {
		case slices.Contains(strings.Split(parts[1], ","), "memory"):
			return oomCounter{file: filepath.Join(cgroupRoot, "memory", parts[2], "memory.oom_control")}, nil
		case parts[0] == "0":
			found = oomCounter{file: filepath.Join(cgroupRoot, parts[2], "memory.events"), unified: true}
		}
	}
	if err := lines.Err(); err != nil {
		return oomCounter{}, fmt.Errorf("find the control group of the sandbox: %w", err)
	}
	if found.file == "" {
		return oomCounter{}, errors.New("the sandbox has no control group for memory")
	}
	return found, nil
}

// procRoot is where the kernel shows processes; a test has its own.
var procRoot = "/proc"

// counts reads the counters, each a name and a number. What can't be read, since
// the group is gone or has no such controller, counts nothing.
func (c oomCounter) counts() map[string]uint64 {
	counts := map[string]uint64{}
	data, err := os.ReadFile(c.file)
	if err != nil {
		return counts
	}
	for line := range strings.Lines(string(data)) {
		name, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseUint(text, 10, 64); err == nil {
			counts[name] = n
		}
	}
	return counts
}

// zero is what a container that was never measured is reported with.
func (c oomCounter) zero() any {
	if c.unified {
		return &cgroup2.Metrics{CPU: &cgroup2.CPUStat{}, Memory: &cgroup2.MemoryStat{}, Pids: &cgroup2.PidsStat{}}
	}
	return &cgroup1.Metrics{
		CPU:    &cgroup1.CPUStat{Usage: &cgroup1.CPUUsage{}},
		Memory: &cgroup1.MemoryStat{Usage: &cgroup1.MemoryEntry{}}, Pids: &cgroup1.PidsStat{},
	}
}

// addTo adds the kills to metrics, whose form is gVisor's choice and not always
// the machine's. Numbers that are there already are better than ours, unless the
// group has gone since.
func (c oomCounter) addTo(metrics any) {
	counts := c.counts()
	kills := counts["oom_kill"]
	switch m := metrics.(type) {
	case *cgroup1.Metrics:
		if m.MemoryOomControl == nil || m.MemoryOomControl.OomKill < kills {
			m.MemoryOomControl = &cgroup1.MemoryOomControl{
				OomKill: kills, UnderOom: counts["under_oom"], OomKillDisable: counts["oom_kill_disable"],
			}
		}
	case *cgroup2.Metrics:
		if m.MemoryEvents == nil || m.MemoryEvents.OomKill < kills {
			m.MemoryEvents = &cgroup2.MemoryEvents{
				OomKill: kills, Oom: counts["oom"], Low: counts["low"], High: counts["high"], Max: counts["max"],
			}
		}
	}
}
