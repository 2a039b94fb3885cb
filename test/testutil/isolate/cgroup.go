// SPDX-License-Identifier: Apache-2.0

package isolate

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// cgroupRoot is where distributions mount the hierarchies.
const cgroupRoot = "/sys/fs/cgroup"

// cgroupPrefix and the first process's pid are the name of a run's cgroup.
const cgroupPrefix = "sedna-test-"

// Cgroup is the cgroup below which everything of this run belongs, as an
// absolute path inside each hierarchy. It is swept when the run ends.
func Cgroup() string { return "/" + os.Getenv(cgroupEnv) }

// Hierarchies are the folders of the mounted cgroup hierarchies: one with
// cgroup v2, one per controller with v1, both on a hybrid machine.
func Hierarchies() []string {
	if _, err := os.Stat(filepath.Join(cgroupRoot, "cgroup.controllers")); err == nil {
		return []string{cgroupRoot}
	}
	found, err := filepath.Glob(filepath.Join(cgroupRoot, "*", "cgroup.procs"))
	if err != nil {
		return nil
	}
	dirs := make([]string, 0, len(found))
	for _, file := range found {
		dirs = append(dirs, filepath.Dir(file))
	}
	return dirs
}

// Cgroups lists the cgroups below a path in all hierarchies, children before
// their parents, the path itself last.
func Cgroups(path string) []string {
	var all []string
	for _, hierarchy := range Hierarchies() {
		root := filepath.Join(hierarchy, path)
		var dirs []string
		_ = filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				dirs = append(dirs, name)
			}
			return nil
		})
		slices.Reverse(dirs)
		all = append(all, dirs...)
	}
	return all
}

// sweepStale removes the cgroups of runs that had no time to do it: those whose
// first process is gone. A cgroup that has processes can't be removed.
func sweepStale() {
	for _, hierarchy := range Hierarchies() {
		found, err := filepath.Glob(filepath.Join(hierarchy, cgroupPrefix+"*"))
		if err != nil {
			return
		}
		for _, dir := range found {
			pid := strings.TrimPrefix(filepath.Base(dir), cgroupPrefix)
			if _, err := os.Stat(filepath.Join("/proc", pid)); errors.Is(err, os.ErrNotExist) {
				sweepCgroup(filepath.Base(dir))
			}
		}
	}
}

// sweepCgroup removes what a run left, after its processes are gone.
func sweepCgroup(name string) {
	if name == "" || strings.ContainsRune(name, '/') {
		return
	}
	for _, dir := range Cgroups("/" + name) {
		_ = os.Remove(dir)
	}
}
