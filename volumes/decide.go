// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// Types and shares that a hint may have: gvisor runsc/boot/mount_hints.go.
const (
	typeTmpfs   = "tmpfs"
	typeBind    = "bind"
	sharePod    = "pod"
	shareShared = "shared"
)

// Decisions is what was decided about a pod's volumes when its sandbox was
// created. It goes into the pod's record, and containers follow it: what the
// annotations and folders have become since doesn't matter.
type Decisions struct {
	UID     string `json:"uid,omitempty"`
	PodsDir string `json:"podsDir"`
	// Auto is the node's empty_dir = "auto".
	Auto bool `json:"auto,omitempty"`
	// Shm says that we hint /dev/shm ourselves, see the package doc.
	Shm bool `json:"shm,omitempty"`
	// Volumes holds one decision per volume, sorted by name.
	Volumes []Volume `json:"volumes,omitempty"`
}

// Volume is what was decided about one volume.
type Volume struct {
	Name string `json:"name"`
	// Path is its folder on the node, "" if it has none.
	Path     string `json:"path,omitempty"`
	EmptyDir bool   `json:"emptyDir,omitempty"`
	// Hint is the type that the sandbox's hint gets; "" leaves it alone.
	Hint string `json:"hint,omitempty"`
	// Share and Options go into the hint too, unless they are "".
	Share   string `json:"share,omitempty"`
	Options string `json:"options,omitempty"`
	// Retype says that mounts of it in containers get the type Mount, which is
	// as the pod wrote it, even if that makes no sense.
	Retype bool   `json:"retype,omitempty"`
	Mount  string `json:"mount,omitempty"`
	// HostUDS lets the sandbox connect to sockets that the host made.
	HostUDS bool `json:"hostUDS,omitempty"`

	// Why it is so.
	Download bool `json:"download,omitempty"` // receives downloads
	Forced   bool `json:"forced,omitempty"`   // the pod wants it shared with the host
	NotEmpty bool `json:"notEmpty,omitempty"` // something on the node filled it
	Auto     bool `json:"auto,omitempty"`     // hinted by us, not by the pod
	Removed  bool `json:"removed,omitempty"`  // not on the node: its hints go
}

// Find returns the decision about the volume called name.
func (d Decisions) Find(name string) (Volume, bool) {
	i, ok := slices.BinarySearchFunc(d.Volumes, name, func(v Volume, name string) int {
		switch {
		case v.Name < name:
			return -1
		case v.Name > name:
			return 1
		}
		return 0
	})
	if !ok {
		return Volume{}, false
	}
	return d.Volumes[i], true
}

// Decide looks at the sandbox's annotations and the pod's folders, changes
// nothing, and returns lines for the log. It must run after the download:
// download names the emptyDir that received files, "" for none.
func Decide(spec *specs.Spec, v *PodVolumes, n Node, download string) (Decisions, []string, error) {
	d := Decisions{UID: v.uid, PodsDir: v.podsDir, Auto: n.AutoHint}
	hinted := typeKeys(spec.Annotations)
	if hintedShm(spec) {
		delete(hinted, shmName) // an earlier rewrite's, not the pod's
	}
	logged := loggedUID(spec.Annotations)
	if download == "" && v.uid == "" && len(hinted) > 0 {
		return d, []string{"the pod's uid is unknown, so its volume hints stay incomplete and runsc ignores them"}, nil
	}
	// gVisor's rewrite can't run on its own result: it would look for a volume
	// of the name it gave to /dev/shm. Where it will run, /dev/shm is left to it.
	d.Shm = logged == ""

	var notes []string
	decided := map[string]Volume{}
	for name, keys := range hinted {
		if download != "" && name == download {
			notes = append(notes, overruled(spec.Annotations, name)...)
			continue
		}
		volume, lines := decideHinted(spec, v, name, keys)
		decided[name] = volume
		notes = append(notes, lines...)
	}
	if download != "" {
		path, err := v.EmptyDir(download)
		if err != nil {
			return Decisions{}, nil, err
		}
		decided[download] = decideDownload(v, download, path)
	}
	if n.AutoHint {
		autoHints(spec, v, decided)
	}
	if logged != "" && logged != v.uid {
		notes = append(notes, dropHints(decided, logged, v.uid)...)
	}
	for _, name := range slices.Sorted(maps.Keys(decided)) {
		d.Volumes = append(d.Volumes, decided[name])
	}
	slices.Sort(notes)
	return d, notes, nil
}

// decideHinted decides about a volume for which the pod wrote a type.
func decideHinted(spec *specs.Spec, v *PodVolumes, name string, keys []string) (Volume, []string) {
	paths := v.find(name)
	if len(paths) != 1 {
		return Volume{Name: name, Removed: true}, []string{fmt.Sprintf(
			"volume %q: %d folders match %s, so its hints are removed", name, len(paths), v.patterns(name))}
	}
	volume := Volume{Name: name, Path: paths[0], Retype: true, Mount: wroteType(spec.Annotations, name, keys)}
	if !isEmptyDir(volume.Path) {
		return volume, nil
	}
	volume.EmptyDir = true
	var notes []string
	forced, bad := forceShared(spec.Annotations, name)
	if bad != "" {
		notes = append(notes, fmt.Sprintf("volume %q: annotation %s=%q is neither true nor false and is ignored", name, forceSharedKey(name), bad))
	}
	empty, err := isEmpty(volume.Path)
	if err != nil {
		notes = append(notes, fmt.Sprintf("volume %q counts as empty: %v", name, err))
	}
	switch {
	case forced:
		notes = append(notes, fmt.Sprintf("volume %q stays a bind mount, as its annotation %s says", name, forceSharedKey(name)))
	case !empty:
		notes = append(notes, fmt.Sprintf("volume %q stays a bind mount, since it isn't empty", name))
	default:
		volume.Hint = typeTmpfs
		return volume, append(notes, doubts(spec.Annotations, volume)...)
	}
	volume.Forced, volume.NotEmpty = forced, !forced
	volume.Hint, volume.Share = typeBind, shareShared
	volume.Retype, volume.Mount = false, ""
	volume.HostUDS = name == gcsFuseVolume
	return volume, notes
}

// doubts says what a hint won't do that its author may expect.
func doubts(annotations map[string]string, v Volume) []string {
	share := annotations[hintKey(v.Name, "share")]
	shared := share == sharePod || share == "container"
	switch {
	case v.Mount != typeTmpfs && v.Mount != typeBind:
		return []string{fmt.Sprintf("volume %q: type %q is neither tmpfs nor bind, so runsc mounts nothing", v.Name, v.Mount)}
	case v.Mount == typeTmpfs && !shared:
		return []string{fmt.Sprintf("volume %q: with type tmpfs and share %q each container gets a volume of its own; share must be pod or container", v.Name, share)}
	}
	for _, option := range strings.Split(annotations[hintKey(v.Name, "options")], ",") {
		if shared && slices.Contains(stricter, option) {
			return []string{fmt.Sprintf("volume %q: with option %s in its hint gVisor starts only containers that mount it so too, which Kubernetes can't say: leave it out", v.Name, option)}
		}
	}
	return nil
}

// stricter are options that runsc lets a hint have only if every mount has
// them, and that kubelet gives to none: gvisor
// runsc/boot/mount_hints.go:checkCompatible.
var stricter = []string{"noexec", "nosuid", "noatime"}

// overruled says that the hint of the volume that receives downloads doesn't
// count, unless it says what that volume gets anyway.
func overruled(annotations map[string]string, name string) []string {
	if annotations[hintKey(name, "type")] == typeBind && annotations[hintKey(name, "share")] == shareShared {
		return nil
	}
	return []string{fmt.Sprintf("volume %q stays a bind mount shared with the node whatever its hint says, since it receives downloads", name)}
}

// wroteType is the type as the pod wrote it. runsc refuses a key with more
// parts than NAME.type, but gVisor's rewrite reads it.
func wroteType(annotations map[string]string, name string, keys []string) string {
	if value, ok := annotations[hintKey(name, "type")]; ok {
		return value
	}
	return annotations[keys[len(keys)-1]]
}

// decideDownload keeps the volume that received files a bind mount that runsc
// must expect others to change: its own tmpfs would hide them.
func decideDownload(v *PodVolumes, name, path string) Volume {
	volume := Volume{Name: name, Path: path, EmptyDir: true, Download: true}
	if len(v.find(name)) != 1 { // gVisor's rewrite would fail on a hint
		volume.Removed = true
		return volume
	}
	volume.Hint, volume.Share = typeBind, shareShared
	volume.HostUDS = name == gcsFuseVolume
	return volume
}

// autoHints decides about the emptyDirs about which nobody has said anything.
func autoHints(spec *specs.Spec, v *PodVolumes, decided map[string]Volume) {
	for _, name := range v.emptyDirs() {
		if _, ok := decided[name]; ok {
			continue
		}
		if forced, _ := forceShared(spec.Annotations, name); forced {
			continue
		}
		if volume, ok := autoHint(v, name); ok {
			decided[name] = volume
		}
	}
}

// autoHint makes the hint that nobody wrote for an empty emptyDir. runsc would
// give its own tmpfs the defaults of a fresh one, so it is told what the folder
// looks like.
func autoHint(v *PodVolumes, name string) (Volume, bool) {
	path, err := v.EmptyDir(name)
	if err != nil || len(v.find(name)) != 1 {
		return Volume{}, false
	}
	if empty, err := isEmpty(path); err != nil || !empty {
		return Volume{}, false
	}
	options, memory, err := folderOptions(path)
	if err != nil {
		return Volume{}, false
	}
	volume := Volume{
		Name: name, Path: path, EmptyDir: true, Auto: true,
		Hint: typeTmpfs, Share: sharePod, Options: "rw," + options, Retype: true, Mount: typeBind,
	}
	if memory {
		volume.Mount = typeTmpfs
	}
	return volume, true
}

// folderOptions describes a folder in the options of a tmpfs, with the size of
// the file system that it is on: runsc's own would have half the sandbox's
// memory, or 8 EiB where it is backed by a file.
func folderOptions(path string) (options string, memory bool, err error) {
	var stat unix.Stat_t
	if err := unix.Lstat(path, &stat); err != nil {
		return "", false, err
	}
	size, memory, err := sizeOf(path)
	if err != nil {
		return "", false, err
	}
	options = fmt.Sprintf("mode=%o,uid=%d,gid=%d", stat.Mode&0o7777, stat.Uid, stat.Gid)
	if size > 0 {
		options = fmt.Sprintf("size=%d,%s", size, options)
	}
	return options, memory, nil
}

// errOwnFS is about a folder with a file system of its own that isn't a tmpfs,
// such as that of medium HugePages.
var errOwnFS = errors.New("neither on kubelet's disk nor a tmpfs")

// sizeOf returns the size of the file system that path is on, 0 if it has no
// limit, and whether path is the root of a tmpfs, as an emptyDir of medium
// Memory is. A folder on a disk doesn't become memory because kubelet's root is
// on a tmpfs.
func sizeOf(path string) (size uint64, memory bool, err error) {
	var fs unix.Statfs_t
	var own, parent unix.Stat_t
	if err := cmp.Or(unix.Statfs(path, &fs), unix.Stat(path, &own), unix.Stat(filepath.Dir(path), &parent)); err != nil {
		return 0, false, err
	}
	size = fs.Blocks * uint64(fs.Bsize)
	switch {
	case own.Dev == parent.Dev:
		return size, false, nil
	case fs.Type == unix.TMPFS_MAGIC:
		return size, true, nil
	}
	return 0, false, errOwnFS
}

// dropHints gives up all hints: gVisor's rewrite would look for the volumes of
// another pod and fail this one.
func dropHints(decided map[string]Volume, logged, uid string) []string {
	var notes []string
	for name, volume := range decided {
		if !volume.Removed && !volume.Download {
			notes = append(notes, fmt.Sprintf("volume %q: gVisor reads the pod's uid off its log folder as %q, but it is %q, so its hints are removed", name, logged, uid))
		}
		decided[name] = Volume{Name: name, Path: volume.Path, EmptyDir: volume.EmptyDir, Download: volume.Download, Removed: true}
	}
	return notes
}
