// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	specs "github.com/opencontainers/runtime-spec/specs-go"
)

// gVisor's annotations. A hint is a set of keys dev.gvisor.spec.mount.NAME.FIELD:
// gvisor runsc/boot/mount_hints.go and pkg/shim/v1/utils/volumes.go.
const (
	gvisorPrefix   = "dev.gvisor."
	hintPrefix     = "dev.gvisor.spec.mount."
	emptyDirPrefix = "dev.gvisor.empty-dir."
	hostUDS        = "dev.gvisor.flag.host-uds"
)

// gcsFuseVolume holds the socket of Google's storage driver: gvisor
// pkg/shim/v1/utils/volumes.go:gcsFuseSidecarTmpVolumeName.
const gcsFuseVolume = "gke-gcsfuse-tmp"

// Annotations of the CRI that gVisor's rewrite looks at.
const (
	containerName = "io.kubernetes.cri.container-name"
	containerCRIO = "io.kubernetes.container.name"
	logDirectory  = "io.kubernetes.cri.sandbox-log-directory"
)

// FilterAnnotations removes the gVisor annotations of a pod that match none of
// the allowed patterns (of path.Match), and returns their keys, sorted. It must
// run before Decide, whose own keys are nobody's wish but ours.
//
// All that runsc reads from a spec begins with dev.gvisor.: flags
// (flag.NAME, bundle.NAME), host paths that it opens (spec.rootfs.source,
// tar.rootfs.upper, internal.checkpoint.path, internal.fscheckpoint.path),
// where it goes (spec.cgroup-parent), devices (internal.nvproxy,
// internal.tpuproxy) and what it leaves out (internal.seccomp.NAME).
func FilterAnnotations(spec *specs.Spec, allowed []string) (removed []string) {
	for key := range spec.Annotations {
		if strings.HasPrefix(key, gvisorPrefix) && !matchesAny(allowed, key) {
			removed = append(removed, key)
		}
	}
	slices.Sort(removed)
	for _, key := range removed {
		delete(spec.Annotations, key)
	}
	return removed
}

func matchesAny(patterns []string, key string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		ok, err := path.Match(pattern, key)
		return ok && err == nil
	})
}

// hintOf splits a hint's key as gVisor does: the name ends at the first dot,
// the field begins after the last one.
func hintOf(key string) (name, field string, ok bool) {
	rest, ok := strings.CutPrefix(key, hintPrefix)
	if !ok {
		return "", "", false
	}
	name, _, _ = strings.Cut(rest, ".")
	return name, rest[strings.LastIndexByte(rest, '.')+1:], true
}

func hintKey(name, field string) string { return hintPrefix + name + "." + field }

func forceSharedKey(name string) string { return emptyDirPrefix + name + ".force-shared" }

// typeKeys returns the keys that start work in gVisor's rewrite, sorted, by the
// name of their volume.
func typeKeys(annotations map[string]string) map[string][]string {
	out := map[string][]string{}
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		if name, field, ok := hintOf(key); ok && field == "type" {
			out[name] = append(out[name], key)
		}
	}
	return out
}

// forceShared says whether the pod wants the emptyDir to be a plain bind mount.
// A value that is no boolean is returned as bad.
func forceShared(annotations map[string]string, name string) (forced bool, bad string) {
	value, ok := annotations[forceSharedKey(name)]
	if !ok {
		return false, ""
	}
	forced, err := strconv.ParseBool(value)
	if err != nil {
		return false, value
	}
	return forced, ""
}

// loggedUID is the pod's uid as gVisor's rewrite finds it, "" if it doesn't and
// therefore does nothing: gvisor pkg/shim/v1/utils/volumes.go:podUID.
func loggedUID(annotations map[string]string) string {
	dir := annotations[logDirectory]
	if dir == "" {
		return ""
	}
	switch parts := strings.Split(filepath.Base(dir), "_"); len(parts) {
	case 1:
		return parts[0]
	case 3:
		return parts[2]
	}
	return ""
}

// nameOf is the container's name in its pod, for messages.
func nameOf(spec *specs.Spec) string {
	if name := spec.Annotations[containerName]; name != "" {
		return name
	}
	return spec.Annotations[containerCRIO]
}
