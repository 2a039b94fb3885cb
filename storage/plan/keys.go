// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Prefix is that of every annotation that is ours.
const Prefix = "storage.sedna.io/"

// Limits on what one pod can ask for, so that hostile input is refused fast.
const (
	// maxInput is Kubernetes' own limit on all annotations of an object
	// (k8s.io/apimachinery pkg/api/validation/objectmeta.go:TotalAnnotationSizeLimitB).
	maxInput = 256 << 10
	maxKeys  = 2048
	// MaxMounts and MaxURLs hold for one pod.
	MaxMounts = 256
	MaxURLs   = 1024
)

// PodKeys are the annotations that speak for the whole pod.
var PodKeys = []string{
	"containers", "max-bytes", "mount-path", "s3-addressing", "s3-endpoint",
	"s3-region", "s3-usehttps", "secret", "volume", "writable",
}

// MountFields are the annotations that speak for one mount, as NAME.FIELD.
var MountFields = []string{
	"check-host-path", "digest", "dir", "env", "exclude", "include", "indirect",
	"mode", "offline", "s3-addressing", "s3-endpoint", "s3-region",
	"s3-usehttps", "secret", "unpack", "url",
}

// wishes are the annotations below Prefix, split but not yet understood.
type wishes struct {
	pod    map[string]string
	mounts map[string]map[string]string
}

func (w *wishes) mountNames() []string { return slices.Sorted(maps.Keys(w.mounts)) }

// splitKeys sorts the annotations by whom they speak for and reports the keys
// that nobody knows.
func splitKeys(annotations map[string]string, found *findings) *wishes {
	w := &wishes{pod: map[string]string{}, mounts: map[string]map[string]string{}}
	var names []string
	size := 0
	for key, value := range annotations {
		if name, ours := strings.CutPrefix(key, Prefix); ours {
			names = append(names, name)
			size += len(key) + len(value)
		}
	}
	if size > maxInput || len(names) > maxKeys {
		found.add(Prefix+"*", "", "the pod has %d annotations of %d bytes, more than %d or %d bytes", len(names), size, maxKeys, maxInput)
		return &wishes{}
	}
	for _, name := range names {
		w.take(name, strings.TrimSpace(annotations[Prefix+name]), found)
	}
	if len(w.mounts) > MaxMounts {
		found.mistakes = nil
		found.add(Prefix+"*", "name several URLs in one mount, separated by ;", "the pod has %d mounts, more than %d", len(w.mounts), MaxMounts)
		return &wishes{}
	}
	return w
}

func (w *wishes) take(name, value string, found *findings) {
	mount, field, dotted := strings.Cut(name, ".")
	key := fullKey(name)
	switch {
	case !dotted && slices.Contains(PodKeys, name):
		w.pod[name] = value
	case !dotted:
		found.add(key, hintPodKey(name), "unknown annotation")
	case !slices.Contains(MountFields, field):
		found.add(key, hintField(mount, field), "unknown field %s", strconv.Quote(clip(field, 40)))
	case !label.matches(mount):
		found.add(key, "a mount's name has lower-case letters, digits and -, at most 63", "%s can't name a mount", strconv.Quote(clip(mount, 40)))
	default:
		if w.mounts[mount] == nil {
			w.mounts[mount] = map[string]string{}
		}
		w.mounts[mount][field] = value
	}
}

// fullKey is the annotation's key as an error shows it.
func fullKey(name string) string {
	key := clip(name, 80)
	if strings.ContainsFunc(key, deceives) {
		key = strings.Trim(strconv.Quote(key), `"`)
	}
	return Prefix + key
}

func mountKey(mount, field string) string { return Prefix + mount + "." + field }

func hintPodKey(name string) string {
	if slices.Contains(MountFields, name) {
		return "it belongs to a mount: " + Prefix + "NAME." + name
	}
	if k := nearest(name, PodKeys); k != "" {
		return "did you mean " + Prefix + k + "?"
	}
	if f := nearest(name, MountFields); f != "" {
		return "did you mean " + Prefix + "NAME." + f + "?"
	}
	return "known are " + strings.Join(PodKeys, ", ") + " and NAME.FIELD"
}

func hintField(mount, field string) string {
	if slices.Contains(PodKeys, field) {
		return "it is set for the whole pod: " + Prefix + field
	}
	if f := nearest(field, MountFields); f != "" {
		return "did you mean " + fullKey(mount+"."+f) + "?"
	}
	return "known are " + strings.Join(MountFields, ", ")
}
