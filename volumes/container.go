// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	specs "github.com/opencontainers/runtime-spec/specs-go"
)

// ApplyContainer makes the mounts of one of the pod's containers follow the
// decisions, and returns lines for the log. A second run changes nothing.
func (d Decisions) ApplyContainer(spec *specs.Spec) (notes []string, err error) {
	if err := checkPropagation(spec); err != nil {
		return nil, err
	}
	for i := range spec.Mounts {
		m := &spec.Mounts[i]
		if v, ok := d.at(m.Source); ok {
			d.follow(spec, m, v)
		} else if name, ok := d.subPath(m.Source); ok {
			if v, _ := d.Find(name); v.Hint == typeTmpfs {
				if d.Auto {
					return nil, fmt.Errorf("%s: %w", unseen(spec, m, name), errdefs.ErrInvalidArgument)
				}
				notes = append(notes, unseen(spec, m, name))
			}
		}
	}
	if err := d.ownShm(spec); err != nil {
		return nil, err
	}
	useTmpfs(spec)
	return append(notes, d.silence(spec)...), nil
}

// checkPropagation says more than runsc does about mountPropagation:
// Bidirectional: gvisor runsc/specutils/fs.go:invalidOptions.
func checkPropagation(spec *specs.Spec) error {
	for _, m := range spec.Mounts {
		for _, option := range m.Options {
			if option == "shared" || option == "rshared" {
				return fmt.Errorf("container %q mounts %s at %s with option %s (mountPropagation: Bidirectional), but mounts made inside gVisor don't reach the node: use HostToContainer or None: %w",
					nameOf(spec), m.Source, m.Destination, option, errdefs.ErrInvalidArgument)
			}
		}
	}
	return nil
}

// follow makes the mount m of volume v what the sandbox's hint expects.
func (d Decisions) follow(spec *specs.Spec, m *specs.Mount, v Volume) {
	m.Source = v.Path // runsc finds the hint by this very string
	if v.Retype {
		changeType(m, v.Mount)
	}
	if v.HostUDS {
		if spec.Annotations == nil {
			spec.Annotations = map[string]string{}
		}
		setDefault(spec.Annotations, hostUDS, "open")
	}
}

// unseen says why a subPath shows other files than the volume.
func unseen(spec *specs.Spec, m *specs.Mount, name string) string {
	return fmt.Sprintf("container %q mounts volume %q by subPath at %s, but gVisor keeps the volume's files inside the sandbox, where a subPath can't see them: mount the whole volume, or annotate the pod with %s: \"true\"",
		nameOf(spec), name, m.Destination, forceSharedKey(name))
}

// at returns the decision about the volume whose folder source is.
func (d Decisions) at(source string) (Volume, bool) {
	v, ok := d.Find(filepath.Base(source))
	if !ok || v.Path == "" || source != v.Path && resolved(source) != v.Path {
		return Volume{}, false
	}
	return v, true
}

// subPath returns the volume of which source is a subPath. kubelet mounts each
// at PODS/UID/volume-subpaths/VOLUME/CONTAINER/INDEX: kubernetes/kubernetes
// pkg/volume/util/subpath/subpath_linux.go:getSubpathBindTarget.
func (d Decisions) subPath(source string) (volume string, ok bool) {
	below := filepath.Join(d.PodsDir, d.UID, "volume-subpaths") + "/"
	if d.UID == "" || !strings.Contains(source, "/volume-subpaths/") {
		return "", false
	}
	rest, ok := strings.CutPrefix(source, below)
	if !ok {
		rest, ok = strings.CutPrefix(resolved(source), below)
	}
	parts := strings.Split(rest, "/")
	return parts[0], ok && len(parts) == 3
}

// isOwnEmptyDir says whether source is an emptyDir of this pod or a subPath of
// one, hinted or not.
func (d Decisions) isOwnEmptyDir(source string) bool {
	if d.UID == "" {
		return false
	}
	if _, ok := d.subPath(source); ok {
		return true
	}
	parent := filepath.Join(d.PodsDir, d.UID, "volumes", emptyDirPlugin)
	return filepath.Dir(source) == parent || filepath.Dir(resolved(source)) == parent
}

// silence removes the type keys by which gVisor's rewrite, which runs after
// ours, could still change a mount: of hints that the record doesn't know, of
// another pod's volumes, of those that were not empty when the sandbox was
// created but may be by now, and of the download volume, which Inject may yet
// mount. It doesn't look at the folders: containers are running and may fill or
// empty them at any time.
func (d Decisions) silence(spec *specs.Spec) (notes []string) {
	types := typeKeys(spec.Annotations)
	for _, name := range slices.Sorted(maps.Keys(types)) {
		for _, key := range types[name] {
			v, known := d.Find(name)
			if !v.Download && !d.stillActs(spec, name, spec.Annotations[key]) {
				continue
			}
			if !known || v.Removed && !v.Download {
				notes = append(notes, fmt.Sprintf("annotation %s is ignored: the pod's sandbox was created without it", key))
			}
			delete(spec.Annotations, key)
		}
	}
	return notes
}

// stillActs says whether gVisor's rewrite, finding the hint name with this type,
// could change the spec.
func (d Decisions) stillActs(spec *specs.Spec, name, kind string) bool {
	pattern := filepath.Join(d.PodsDir, "*", "volumes", "*") + "/" + name
	forced, _ := forceShared(spec.Annotations, name)
	return slices.ContainsFunc(spec.Mounts, func(m specs.Mount) bool {
		if ok, err := filepath.Match(pattern, m.Source); !ok || err != nil {
			return false
		}
		if name == gcsFuseVolume && spec.Annotations[hostUDS] == "" {
			return true
		}
		if forced && isEmptyDir(m.Source) {
			return false
		}
		return changeType(&m, kind)
	})
}
