// SPDX-License-Identifier: Apache-2.0

package config

import (
	"regexp"
	"slices"
	"strings"
)

// gvisorPrefix is that of every annotation that runsc and gVisor's shim read.
const gvisorPrefix = "dev.gvisor."

// openFamilies are the gVisor annotations of which a node may allow all by a
// "*". The others set runsc's flags, name images and files of the node or
// stand in for the control plane (gvisor.dev/gvisor runsc/specutils and
// runsc/boot/mount_hints.go), so a node has to list each of those by name.
var openFamilies = []string{"dev.gvisor.spec.mount.", "dev.gvisor.empty-dir."}

var annotationForm = regexp.MustCompile(`^dev\.gvisor\.[A-Za-z0-9._-]+\*?$|^dev\.gvisor\.\*$`)

func checkAnnotation(pattern string) string {
	if !annotationForm.MatchString(pattern) {
		return "is no pattern for keys below " + gvisorPrefix + ", with a * only at its end"
	}
	prefix, wild := strings.CutSuffix(pattern, "*")
	inFamily := func(f string) bool { return strings.HasPrefix(prefix, f) }
	if wild && !slices.ContainsFunc(openFamilies, inFamily) {
		return "would let pods set runsc's flags or open files of the node; a * is for " +
			strings.Join(openFamilies, " and ") + ", list other keys one by one"
	}
	return ""
}

// AllowsAnnotation says whether a pod may set an annotation of gVisor's, by
// [shim] gvisor_annotations.
func (s Shim) AllowsAnnotation(key string) bool {
	return slices.ContainsFunc(s.GVisorAnnotations, func(pattern string) bool {
		if prefix, wild := strings.CutSuffix(pattern, "*"); wild {
			return strings.HasPrefix(key, prefix)
		}
		return key == pattern
	})
}
