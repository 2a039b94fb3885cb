// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// CgroupRoot is where distributions mount control groups.
const CgroupRoot = "/sys/fs/cgroup"

// groupPrefix begins the name of every group of ours, so that nobody else's is
// ever taken for one.
const groupPrefix = "sedna-storage-"

// ownParent is the group below the root that stands in for a pod's.
const ownParent = "sedna-storage"

// Group is the control group of one worker. Its JSON is all that another
// process needs to remove it.
//
//	version 1: ROOT/memory/POD/sedna-storage-ID, ROOT/cpu/POD/sedna-storage-ID
//	version 2: ROOT/POD/sedna-storage-ID
//
// ROOT/sedna-storage takes the place of POD where there's no group of the pod,
// or one that may not have limits below it.
type Group struct {
	// Dirs are the folders that the group may have made, its name the last part.
	Dirs []string `json:"dirs"`
	// Enabled are controllers that Make switches on for what is below Pod, and
	// Remove off: a group of version 2 with controllers below it takes no
	// process, and gVisor's sandbox is one in the pod's own group.
	Enabled []string `json:"enabled,omitempty"`
	Pod     string   `json:"pod,omitempty"` // folder of the pod's group, version 2 only

	hierarchy hierarchy
	limit     int64 // of memory, bytes; 0 for none
}

// Bounds limit a group. 0 is no limit.
type Bounds struct {
	Memory int64 // bytes
	CPU    int64 // thousandths of a core
}

// ForVolume adds what the volume at dir still takes, if it lies in memory: who
// writes a page of a tmpfs is charged for it.
func (b Bounds) ForVolume(dir string) Bounds {
	var st unix.Statfs_t
	if b.Memory == 0 || unix.Statfs(dir, &st) != nil || st.Type != unix.TMPFS_MAGIC {
		return b
	}
	if st.Blocks == 0 { // mounted without a size
		b.Memory = 0
		return b
	}
	b.Memory += int64(st.Bavail) * st.Bsize
	return b
}

// hierarchy is what the two versions of control groups do differently.
type hierarchy interface {
	// create makes the group with its limits and returns what it lacks. No
	// group at all is an error.
	create(g *Group, b Bounds) (lacks []string, err error)
	// killed counts the processes of a group that were ended for want of memory.
	killed(dir string) int
	// memoryLimit is the limit of a group, 0 for none.
	memoryLimit(dir string) int64
}

// NewGroup says where the group of a worker will be, and makes nothing:
// cgroupsPath is that of the sandbox's spec, id the sandbox.
func NewGroup(root, cgroupsPath, id string) (*Group, error) {
	name := groupPrefix + id
	if id == "" || strings.ContainsRune(id, '/') {
		return nil, fmt.Errorf("%q can't name a control group", id)
	}
	pod := podGroup(cgroupsPath)
	if _, err := os.Stat(filepath.Join(root, controllersFile)); err == nil {
		return newV2(root, pod, name), nil
	}
	return newV1(root, pod, name), nil
}

// Make makes the group. It returns what the node can't do, and an error if it
// can do nothing.
func (g *Group) Make(b Bounds) (lacks []string, err error) {
	g.limit = b.Memory
	return g.hierarchy.create(g, b)
}

// Add moves a process into the group, with all its threads.
func (g *Group) Add(pid int) error {
	var added bool
	for _, dir := range g.Dirs {
		err := writeFile(dir, "cgroup.procs", fmt.Sprint(pid))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("move the worker into its control group: %w", err)
		}
		added = true
	}
	if !added {
		return errors.New("the worker has no control group")
	}
	return nil
}

// Starved says whether the kernel ended the worker for want of memory, and the
// limit that was in force: the group's own, or the pod's where that is less.
// 0 is none, so that the node had no more.
func (g *Group) Starved() (limit int64, pods, yes bool) {
	for _, dir := range g.Dirs {
		if g.hierarchy.killed(dir) == 0 {
			continue
		}
		pod := g.hierarchy.memoryLimit(filepath.Dir(dir))
		if pod > 0 && (g.limit == 0 || pod < g.limit) {
			return pod, true, true
		}
		return g.limit, false, true
	}
	return 0, false, false
}

// podGroup returns the path of the pod's group, "" for none. An OCI spec has
// the path of the sandbox's own group below it, or, with systemd,
// SLICE:PREFIX:NAME where the slice is the pod's.
func podGroup(cgroupsPath string) string {
	slice, rest, systemd := strings.Cut(cgroupsPath, ":")
	if systemd && strings.Contains(rest, ":") {
		return expandSlice(slice)
	}
	if dir := filepath.Dir(filepath.Join("/", cgroupsPath)); dir != "/" {
		return dir
	}
	return ""
}

// expandSlice returns where systemd puts a slice: every dash of a-b.slice is a
// level, a.slice/a-b.slice (systemd.slice(5)).
func expandSlice(slice string) string {
	const suffix = ".slice"
	name, ok := strings.CutSuffix(slice, suffix)
	if !ok || name == "-" || strings.ContainsRune(name, '/') {
		return ""
	}
	path, prefix := "/", ""
	for part := range strings.SplitSeq(name, "-") {
		if part == "" {
			return ""
		}
		prefix += part
		path = filepath.Join(path, prefix+suffix)
		prefix += "-"
	}
	return path
}

func writeFile(dir, name, value string) error {
	// Without O_CREATE: the kernel makes these files, or there's no such group.
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

// makeDir makes a folder that may be there already.
func makeDir(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return nil
}

func isDir(dir string) bool {
	info, err := os.Stat(dir)
	return err == nil && info.IsDir()
}

// counter reads one number of a file of "name number" lines.
func counter(dir, file, name string) int {
	data, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		var n int
		if fields := strings.Fields(line); len(fields) == 2 && fields[0] == name {
			if _, err := fmt.Sscan(fields[1], &n); err == nil {
				return n
			}
		}
	}
	return 0
}
