// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sedna-io/containerd-shim-sedna/storage/plan"
)

// downloadMount is a mount of the download volume that the container has.
type downloadMount struct {
	index       int // among the spec's mounts
	destination string
	// below is the path in the volume that is mounted: "." for all of it.
	below string
	// hidden is what a subPath mounts when below isn't known: any file or
	// folder of the volume.
	hidden os.FileInfo
}

// downloadMounts finds all mounts whose source lies in the download volume: its
// folder, a path below that, or a subPath, which kubelet mounts elsewhere.
func (in Injection) downloadMounts(spec *specs.Spec) ([]downloadMount, error) {
	if in.Volume == "" {
		return nil, nil
	}
	root, err := os.Stat(in.Volume)
	if err != nil {
		return nil, fmt.Errorf("look at the download volume: %w", err)
	}
	var out []downloadMount
	for i, m := range spec.Mounts {
		found := downloadMount{index: i, destination: m.Destination, below: "."}
		switch source := resolved(m.Source); {
		case source == in.Volume:
		case within(source, in.Volume):
			found.below = strings.TrimPrefix(source, in.Volume+"/")
		case isSubPathOf(source, in.Volume):
			info, err := os.Stat(source)
			if err != nil {
				return nil, fmt.Errorf("look at the subPath at %s: %w", m.Destination, err)
			}
			if !os.SameFile(info, root) {
				found.hidden = info
			}
		default:
			continue
		}
		out = append(out, found)
	}
	return out, nil
}

// isSubPathOf says whether source is PODS/UID/volume-subpaths/NAME/... for the
// volume PODS/UID/volumes/PLUGIN/NAME.
func isSubPathOf(source, volume string) bool {
	pod := filepath.Dir(filepath.Dir(filepath.Dir(volume)))
	return within(source, filepath.Join(pod, "volume-subpaths", filepath.Base(volume)))
}

// resolve finds for each path that a variable names where the container sees
// it, by the first mount that shows it. uncovered says that some are seen
// through none: their place is below MountPath.
func (in Injection) resolve(mounts []downloadMount) (paths map[string]string, uncovered bool, err error) {
	paths = map[string]string{}
	for _, variable := range in.Variables {
		for _, value := range variable.Values {
			if value.Download == "" {
				continue
			}
			place, ok, err := in.place(mounts, value.Download)
			if err != nil {
				return nil, false, fmt.Errorf("variable %s: %w", variable.Name, err)
			}
			if !ok {
				place, uncovered = path.Join(in.MountPath, value.Download), true
			}
			paths[value.Download] = place
		}
	}
	return paths, uncovered, nil
}

// place returns where the first mount that shows the path below the volume
// shows it.
func (in Injection) place(mounts []downloadMount, below string) (string, bool, error) {
	for _, m := range mounts {
		shown := m.below
		if m.hidden != nil {
			found, err := in.identify(m.hidden, below)
			if err != nil {
				return "", false, err
			}
			if found == "" {
				continue
			}
			shown = found
		}
		if shown == "." {
			return path.Join(m.destination, below), true, nil
		}
		if within("/"+below, "/"+shown) {
			return path.Join(m.destination, strings.TrimPrefix("/"+below, "/"+shown)), true, nil
		}
	}
	return "", false, nil
}

// identify finds which of the folders along a path in the volume, or its end,
// is the same as what a subPath mounts; "" if none is.
func (in Injection) identify(hidden os.FileInfo, below string) (string, error) {
	root, err := os.OpenRoot(in.Volume)
	if err != nil {
		return "", fmt.Errorf("open the download volume: %w", err)
	}
	defer root.Close()
	for i := range len(below) + 1 {
		if i < len(below) && below[i] != '/' {
			continue
		}
		info, err := root.Lstat(below[:i])
		if errors.Is(err, fs.ErrNotExist) {
			return "", nil
		}
		if err != nil {
			return "", fmt.Errorf("look for a subPath in the download volume: %w", err)
		}
		if os.SameFile(info, hidden) {
			return below[:i], nil
		}
	}
	return "", nil
}

// setVariables sets what the container doesn't define itself.
func (in Injection) setVariables(spec *specs.Spec, name string, paths map[string]string) (notes []string) {
	if len(in.Variables) == 0 {
		return nil
	}
	if spec.Process == nil {
		spec.Process = &specs.Process{}
	}
	for _, variable := range in.Variables {
		value := valueOf(variable, paths)
		old, ok := lookup(spec.Process.Env, variable.Name)
		switch {
		case !ok:
			spec.Process.Env = append(spec.Process.Env, variable.Name+"="+value)
		case old != value:
			notes = append(notes, fmt.Sprintf("container %q defines %s itself, so mount %q doesn't set it", name, variable.Name, variable.Mount))
		}
	}
	return notes
}

// valueOf joins the parts of a variable.
func valueOf(variable plan.Variable, paths map[string]string) string {
	parts := make([]string, len(variable.Values))
	for i, v := range variable.Values {
		if parts[i] = v.Literal.Reveal(); v.Download != "" {
			parts[i] = paths[v.Download]
		}
	}
	return strings.Join(parts, ";")
}

// lookup returns the value of a variable in an environment.
func lookup(env []string, name string) (string, bool) {
	for _, entry := range env {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value, true
		}
		if entry == name { // without a value, but the container's own
			return "", true
		}
	}
	return "", false
}
