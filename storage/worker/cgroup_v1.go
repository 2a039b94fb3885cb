// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// v1 has a hierarchy of its own for each controller.
type v1 struct{ root string }

// cpuPeriod is the time in which a share of the CPU is counted, microseconds:
// the kernel's own default.
const cpuPeriod = 100_000

func newV1(root, pod, name string) *Group {
	g := &Group{hierarchy: v1{root}}
	for _, controller := range []string{"memory", "cpu"} {
		parent := filepath.Join(root, controller, ownParent)
		if in := filepath.Join(root, controller, pod); pod != "" && isDir(in) {
			parent = in
		}
		g.Dirs = append(g.Dirs, filepath.Join(parent, name))
	}
	return g
}

func (v v1) create(g *Group, b Bounds) (lacks []string, err error) {
	made := 0
	for _, dir := range g.Dirs {
		rel, err := filepath.Rel(v.root, dir)
		if err != nil {
			return nil, err
		}
		controller, _, _ := strings.Cut(rel, "/")
		limit := v.limitMemory
		if controller == "cpu" {
			limit = v.limitCPU
		}
		if err := v.make(controller, dir); err != nil {
			lacks = append(lacks, fmt.Sprintf("no limit of %s: %v", controller, err))
			continue
		}
		made++
		if err := limit(dir, b); err != nil {
			lacks = append(lacks, fmt.Sprintf("no limit of %s: %v", controller, err))
		}
	}
	if made == 0 {
		return nil, errors.New(strings.Join(lacks, "; "))
	}
	return lacks, nil
}

func (v v1) make(controller, dir string) error {
	if !isDir(filepath.Join(v.root, controller)) {
		return errors.New("the controller isn't there")
	}
	if parent := filepath.Dir(dir); filepath.Base(parent) == ownParent {
		if err := makeDir(parent); err != nil {
			return err
		}
	}
	return makeDir(dir)
}

func (v1) limitMemory(dir string, b Bounds) error {
	if b.Memory == 0 {
		return nil
	}
	value := strconv.FormatInt(b.Memory, 10)
	if err := writeFile(dir, "memory.limit_in_bytes", value); err != nil {
		return err
	}
	// Of memory and swap together; kernels that don't count swap lack it.
	err := writeFile(dir, "memory.memsw.limit_in_bytes", value)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

func (v1) limitCPU(dir string, b Bounds) error {
	if b.CPU == 0 {
		return nil
	}
	if err := writeFile(dir, "cpu.cfs_period_us", strconv.Itoa(cpuPeriod)); err != nil {
		return err
	}
	err := writeFile(dir, "cpu.cfs_quota_us", strconv.FormatInt(quota(b.CPU), 10))
	if errors.Is(err, unix.EINVAL) {
		return nil // more than the pod has: its own limit holds
	}
	return err
}

// quota is a share of cpuPeriod; the kernel takes no less than a millisecond.
func quota(cpu int64) int64 { return max(cpu*cpuPeriod/1000, 1000) }

func (v1) killed(dir string) int { return counter(dir, "memory.oom_control", "oom_kill") }

func (v1) memoryLimit(dir string) int64 {
	n := number(dir, "memory.limit_in_bytes")
	if n >= 1<<62 { // without a limit, the largest number of whole pages
		return 0
	}
	return n
}
