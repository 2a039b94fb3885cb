// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const (
	controllersFile = "cgroup.controllers"
	subtreeFile     = "cgroup.subtree_control"
)

// v2 has one hierarchy, in which a group says what its children may limit.
type v2 struct{ root string }

func newV2(root, pod, name string) *Group {
	g := &Group{hierarchy: v2{root}}
	if dir := filepath.Join(root, pod); pod != "" && isDir(dir) {
		g.Pod = dir
		g.Enabled = disabled(dir)
		g.Dirs = append(g.Dirs, filepath.Join(dir, name))
	}
	// Second choice, where the pod's group may not have limits below it.
	g.Dirs = append(g.Dirs, filepath.Join(root, ownParent, name))
	return g
}

// wanted are the controllers that limit a worker.
var wanted = []string{"memory", "cpu"}

// disabled lists those of the wanted controllers that the children of a group
// can't use yet.
func disabled(dir string) []string {
	on := words(dir, subtreeFile)
	return slices.DeleteFunc(slices.Clone(wanted), func(c string) bool { return slices.Contains(on, c) })
}

func words(dir, file string) []string {
	data, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return nil
	}
	return strings.Fields(string(data))
}

func (v v2) create(g *Group, b Bounds) (lacks []string, err error) {
	for i, dir := range g.Dirs {
		parent := filepath.Dir(dir)
		if parent == filepath.Join(v.root, ownParent) {
			err = errors.Join(makeDir(parent), enable(v.root, disabled(v.root)))
		}
		// One that has processes of its own refuses.
		err = errors.Join(err, enable(parent, disabled(parent)))
		last := i == len(g.Dirs)-1
		if err != nil && !last {
			lacks = append(lacks, fmt.Sprintf("no limits below the pod's control group, so that the pod's own don't hold: %v", err))
			err = nil
			continue
		}
		if made := makeDir(dir); made != nil {
			if last {
				return nil, errors.Join(err, made)
			}
			lacks = append(lacks, fmt.Sprintf("no control group below the pod's: %v", made))
			continue
		}
		return append(lacks, v.limit(dir, b)...), nil
	}
	return nil, errors.New("no place for a control group")
}

func enable(dir string, controllers []string) error {
	if len(controllers) == 0 {
		return nil
	}
	if err := writeFile(dir, subtreeFile, "+"+strings.Join(controllers, " +")); err != nil {
		return fmt.Errorf("enable %s: %w", strings.Join(controllers, " and "), err)
	}
	return nil
}

func (v2) limit(dir string, b Bounds) (lacks []string) {
	if b.Memory > 0 {
		if err := writeFile(dir, "memory.max", strconv.FormatInt(b.Memory, 10)); err != nil {
			lacks = append(lacks, fmt.Sprintf("no limit of memory: %v", err))
		}
		// Kernels that can't swap lack it.
		if err := writeFile(dir, "memory.swap.max", "0"); err != nil && !errors.Is(err, os.ErrNotExist) {
			lacks = append(lacks, fmt.Sprintf("no limit of swap: %v", err))
		}
	}
	if b.CPU > 0 {
		if err := writeFile(dir, "cpu.max", fmt.Sprintf("%d %d", quota(b.CPU), cpuPeriod)); err != nil {
			lacks = append(lacks, fmt.Sprintf("no limit of cpu: %v", err))
		}
	}
	return lacks
}

func (v2) killed(dir string) int { return counter(dir, "memory.events", "oom_kill") }

// memoryLimit finds no number where the limit is "max", nor in the root.
func (v2) memoryLimit(dir string) int64 { return number(dir, "memory.max") }
