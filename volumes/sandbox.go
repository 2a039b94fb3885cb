// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"maps"
	"slices"
	"strings"

	specs "github.com/opencontainers/runtime-spec/specs-go"
)

// ApplySandbox writes the decisions into the sandbox's spec: its hints, and
// /dev/shm. A second run changes nothing.
func (d Decisions) ApplySandbox(spec *specs.Spec) (changed bool) {
	if spec.Annotations == nil {
		spec.Annotations = map[string]string{}
	}
	before := maps.Clone(spec.Annotations)
	for _, v := range d.Volumes {
		if v.Removed {
			if v.Name != shmName || !hintedShm(spec) { // by an earlier run
				removeHints(spec.Annotations, v.Name)
			}
			continue
		}
		v.hint(spec.Annotations)
	}
	if d.Shm && hintShm(spec) {
		changed = true
	}
	return changed || !maps.Equal(before, spec.Annotations)
}

// hint completes the keys of the volume's hint.
func (v Volume) hint(annotations map[string]string) {
	annotations[hintKey(v.Name, "source")] = v.Path
	if v.Hint == "" {
		return
	}
	keys := typeKeys(annotations)[v.Name]
	if len(keys) == 0 {
		keys = []string{hintKey(v.Name, "type")}
	}
	for _, key := range keys { // NAME.more.type is one too
		annotations[key] = v.Hint
	}
	if v.Auto {
		setDefault(annotations, hintKey(v.Name, "share"), v.Share)
		setDefault(annotations, hintKey(v.Name, "options"), v.Options)
	} else if v.Share != "" {
		annotations[hintKey(v.Name, "share")] = v.Share
	}
	if v.Download {
		// Tells gVisor's rewrite the same, whatever it finds in the folder.
		annotations[forceSharedKey(v.Name)] = "true"
	}
	if v.HostUDS {
		setDefault(annotations, hostUDS, "open")
	}
}

// setDefault sets key where it is missing or empty.
func setDefault(annotations map[string]string, key, value string) {
	if annotations[key] == "" {
		annotations[key] = value
	}
}

// removeHints removes all keys of the volume's hint.
func removeHints(annotations map[string]string, name string) {
	maps.DeleteFunc(annotations, func(key, _ string) bool {
		volume, _, ok := hintOf(key)
		return ok && volume == name
	})
}

// isEmptyDir says whether path is the folder of an emptyDir, as gVisor does.
func isEmptyDir(path string) bool { return strings.Contains(path, emptyDirPlugin) }

// changeType makes m a mount of another type, and says whether that changed
// it: gvisor runsc/specutils/specutils.go:ChangeMountType. bind and rbind among
// the options would make it a bind mount whatever its type says.
func changeType(m *specs.Mount, to string) (changed bool) {
	changed = m.Type != to
	m.Type = to
	if to == typeBind {
		return changed
	}
	isBind := func(option string) bool { return option == "bind" || option == "rbind" }
	if slices.ContainsFunc(m.Options, isBind) {
		m.Options = slices.DeleteFunc(slices.Clone(m.Options), isBind)
		changed = true
	}
	return changed
}
