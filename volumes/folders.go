// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"syscall"

	"github.com/containerd/errdefs"
)

// kubelet names a volume's folder by its plugin: kubernetes/kubernetes
// pkg/volume/{emptydir,secret,projected}, pluginName with / written as ~.
const (
	emptyDirPlugin  = "kubernetes.io~empty-dir"
	secretPlugin    = "kubernetes.io~secret"
	projectedPlugin = "kubernetes.io~projected"
)

// volumesDir is where kubelet keeps this pod's volumes: PLUGIN/NAME below it.
func (v *PodVolumes) volumesDir() string {
	return filepath.Join(v.podsDir, v.uid, "volumes")
}

// EmptyDir returns the folder of the emptyDir called name.
func (v *PodVolumes) EmptyDir(name string) (string, error) {
	return v.folder(name, "an emptyDir", emptyDirPlugin)
}

// folder finds the one folder of the volume called name and checks its plugin.
func (v *PodVolumes) folder(name, kind string, plugins ...string) (string, error) {
	if !plainName(name) {
		return "", fmt.Errorf("volume %q: not the name of a volume: %w", name, errdefs.ErrInvalidArgument)
	}
	if v.uid == "" {
		return "", fmt.Errorf("volume %q: the runtime didn't say which pod this is, so its volumes can't be found: use a CRI that writes the pod's uid or its log folder: %w", name, errdefs.ErrNotFound)
	}
	for _, plugin := range plugins {
		path := filepath.Join(v.volumesDir(), plugin, name)
		info, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("volume %q: %w", name, err)
		}
		if !info.IsDir() {
			return "", fmt.Errorf("volume %q: %s is not a folder: %w", name, path, errdefs.ErrInvalidArgument)
		}
		return path, nil
	}
	if others := v.find(name); len(others) > 0 {
		return "", fmt.Errorf("volume %q: %s is not %s: %w", name, others[0], kind, errdefs.ErrInvalidArgument)
	}
	return "", v.missing(name, kind)
}

// missing is the error for a volume that isn't on the node.
func (v *PodVolumes) missing(name, kind string) error {
	hint := fmt.Sprintf("a volume that no container mounts doesn't exist on the node: declare %s of this name and mount it in a container", kind)
	if !v.found {
		hint = "the node has no folder for this pod there: set kubelet_root in the shim's config to kubelet's --root-dir"
	}
	return fmt.Errorf("volume %q: nothing matches %s; %s: %w", name, v.patterns(name), hint, errdefs.ErrNotFound)
}

// patterns are the places that were searched for a volume.
func (v *PodVolumes) patterns(name string) string {
	dirs := v.searched
	if v.found || len(dirs) == 0 {
		dirs = []string{v.podsDir}
	}
	seen := map[string]bool{}
	var out []string
	for _, dir := range dirs {
		if p := filepath.Join(dir, v.uid, "volumes", "*", name); !seen[p] {
			seen[p] = true
			out = append(out, p)
		}
	}
	return strings.Join(out, " or ")
}

// find returns all folders of volumes called name, whatever their plugin.
func (v *PodVolumes) find(name string) []string {
	if v.uid == "" || !plainName(name) {
		return nil
	}
	plugins, err := os.ReadDir(v.volumesDir())
	if err != nil {
		return nil
	}
	var out []string
	for _, plugin := range plugins {
		path := filepath.Join(v.volumesDir(), plugin.Name(), name)
		if _, err := os.Lstat(path); err == nil {
			out = append(out, path)
		}
	}
	return out
}

// emptyDirs returns the names of the pod's emptyDirs on the node, sorted.
func (v *PodVolumes) emptyDirs() []string {
	if v.uid == "" {
		return nil
	}
	entries, err := os.ReadDir(filepath.Join(v.volumesDir(), emptyDirPlugin))
	if err != nil {
		return nil
	}
	var out []string
	for _, e := range entries {
		if e.IsDir() {
			out = append(out, e.Name())
		}
	}
	sort.Strings(out)
	return out
}

// filestorePrefix begins the name of the file in which runsc keeps the contents
// of an emptyDir of its own: gvisor pkg/shim/v1/utils/volumes.go:selfFilestorePrefix.
const filestorePrefix = ".gvisor.filestore."

// isEmpty says whether runsc may lay its own tmpfs over the folder: it holds
// nothing, or one file of an earlier sandbox of this pod. Like gVisor it takes
// a folder that can't be read for an empty one, and says why.
func isEmpty(path string) (bool, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a FIFO must not hang us
	if err != nil {
		return true, err
	}
	defer f.Close()
	names, err := f.Readdirnames(2)
	if err != nil && !errors.Is(err, io.EOF) {
		return true, err
	}
	switch len(names) {
	case 0:
		return true, nil
	case 1:
		return strings.HasPrefix(names[0], filestorePrefix), nil
	}
	return false, nil
}
