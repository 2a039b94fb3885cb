// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	specs "github.com/opencontainers/runtime-spec/specs-go"
)

const shmPath = "/dev/shm"

// shmName is the name of the hint for /dev/shm: gvisor
// pkg/shim/v1/utils/volumes.go:devshmName.
const shmName = "gvisorinternaldevshm"

// isShm says whether m is the mount at /dev/shm with this type.
func isShm(m specs.Mount, kind string) bool {
	return m.Destination == shmPath && m.Type == kind
}

// useTmpfs turns the bind mount that the runtime makes at /dev/shm into a
// tmpfs: glibc's shm_open uses nothing else there. Of a tmpfs that stands
// beside it, the first is removed. It returns the mount's source. Of several
// bind mounts there gVisor takes one each time it runs, we take all.
func useTmpfs(spec *specs.Spec) (source string, changed bool) {
	for more := true; more; {
		var from string
		if from, more = useOneTmpfs(spec); more {
			source, changed = from, true
		}
	}
	return source, changed
}

func useOneTmpfs(spec *specs.Spec) (source string, changed bool) {
	bind := slices.IndexFunc(spec.Mounts, func(m specs.Mount) bool { return isShm(m, typeBind) })
	if bind < 0 {
		return "", false
	}
	duplicate := slices.IndexFunc(spec.Mounts, func(m specs.Mount) bool { return isShm(m, typeTmpfs) })
	source = spec.Mounts[bind].Source
	changeType(&spec.Mounts[bind], typeTmpfs)
	if duplicate >= 0 {
		spec.Mounts = slices.Delete(spec.Mounts, duplicate, duplicate+1)
	}
	return source, true
}

// hintShm does that in a sandbox, with the hint by which all containers of the
// pod get the same one.
func hintShm(spec *specs.Spec) (changed bool) {
	source, changed := useTmpfs(spec)
	if !changed {
		return false
	}
	for field, value := range map[string]string{
		"source": source, "type": typeTmpfs, "share": sharePod,
		"options": "rw", // the widest: a container's own options narrow it
	} {
		spec.Annotations[hintKey(shmName, field)] = value
	}
	return true
}

// hintedShm says whether hintShm has run, ours or gVisor's.
func hintedShm(spec *specs.Spec) bool {
	source := spec.Annotations[hintKey(shmName, "source")]
	return source != "" && slices.ContainsFunc(spec.Mounts, func(m specs.Mount) bool {
		return isShm(m, typeTmpfs) && m.Source == source
	})
}

// ownShm lets a pod's own volume at /dev/shm win over the runtime's mount: the
// only one there, in memory, and of the volume's size.
func (d Decisions) ownShm(spec *specs.Spec) error {
	own := -1
	for i, m := range spec.Mounts {
		if filepath.Clean(m.Destination) == shmPath && d.isOwnEmptyDir(m.Source) {
			own = i
		}
	}
	if own < 0 {
		return nil
	}
	m := &spec.Mounts[own]
	name, isSub := d.subPath(m.Source)
	if !isSub {
		name = filepath.Base(m.Source)
	}
	if v, _ := d.Find(name); v.Download {
		return fmt.Errorf("container %q mounts volume %q, which receives downloads, at %s, where gVisor has memory only: mount it elsewhere: %w", nameOf(spec), name, shmPath, errdefs.ErrInvalidArgument)
	}
	m.Destination = shmPath
	changeType(m, typeTmpfs)
	m.Options = shmOptions(m.Options, m.Source)
	kept := *m
	spec.Mounts = slices.DeleteFunc(spec.Mounts, func(m specs.Mount) bool {
		return filepath.Clean(m.Destination) == shmPath && m.Source != kept.Source
	})
	return nil
}

// shmOptions adds what /dev/shm has everywhere, and the volume's size.
func shmOptions(options []string, source string) []string {
	out := slices.Clone(options)
	for _, option := range []string{"nosuid", "nodev", "noexec"} {
		if !slices.Contains(out, option) {
			out = append(out, option)
		}
	}
	if !hasOption(out, "mode=") {
		out = append(out, "mode=1777")
	}
	if size, memory, err := sizeOf(source); err == nil && memory && size > 0 && !hasOption(out, "size=") {
		out = append(out, fmt.Sprintf("size=%d", size))
	}
	return out
}

func hasOption(options []string, prefix string) bool {
	return slices.ContainsFunc(options, func(o string) bool { return strings.HasPrefix(o, prefix) })
}
