// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	specs "github.com/opencontainers/runtime-spec/specs-go"
)

var defaultPatterns = []string{"dev.gvisor.spec.mount.*", "dev.gvisor.empty-dir.*"}

// dangerous are keys by which a pod would get at the node or change its
// sandbox: all that runsc and its shim read at the pinned version.
var dangerous = []string{
	"dev.gvisor.bundle.experimental-high-performance",
	"dev.gvisor.container-name-remap.1",
	"dev.gvisor.flag.debug",
	"dev.gvisor.flag.host-uds",
	"dev.gvisor.flag.overlay2",
	"dev.gvisor.internal.checkpoint.path",
	"dev.gvisor.internal.cpufeatures",
	"dev.gvisor.internal.fscheckpoint.path",
	"dev.gvisor.internal.nvproxy",
	"dev.gvisor.internal.seccomp.main",
	"dev.gvisor.internal.tpuproxy",
	"dev.gvisor.something.new",
	"dev.gvisor.spec.cgroup-parent",
	"dev.gvisor.spec.mountx",
	"dev.gvisor.spec.rootfs.overlay",
	"dev.gvisor.spec.rootfs.source",
	"dev.gvisor.spec.rootfs.type",
	"dev.gvisor.tar.rootfs.upper.main",
}

func TestOnlyListedGVisorAnnotationsStay(t *testing.T) {
	spec := &specs.Spec{Annotations: map[string]string{}}
	keep := []string{
		"dev.gvisor.empty-dir.a.force-shared", "dev.gvisor.spec.mount.a.type", "io.kubernetes.cri.container-type",
		"storage.sedna.io/volume", "xdev.gvisor.flag.debug",
	}
	for _, key := range append(slices.Clone(dangerous), keep...) {
		spec.Annotations[key] = "x"
	}
	removed := FilterAnnotations(spec, defaultPatterns)
	if diff := cmp.Diff(dangerous, removed); diff != "" {
		t.Errorf("removed: %s", diff)
	}
	for _, key := range keep {
		if spec.Annotations[key] == "" {
			t.Errorf("%s is gone", key)
		}
	}
	if len(spec.Annotations) != len(keep) {
		t.Errorf("left: %v", spec.Annotations)
	}
	if again := FilterAnnotations(spec, defaultPatterns); again != nil {
		t.Errorf("a second run removed %v", again)
	}
}

func TestANodeMayAllowMoreOrNothing(t *testing.T) {
	for _, test := range []struct {
		allowed []string
		stays   bool
	}{
		{nil, false},
		{[]string{"dev.gvisor.flag.debug"}, true},
		{[]string{"dev.gvisor.flag"}, false},
		{[]string{"dev.gvisor.*"}, true},
		{[]string{"dev.gvisor.[", "x"}, false},
	} {
		spec := &specs.Spec{Annotations: map[string]string{"dev.gvisor.flag.debug": "true"}}
		FilterAnnotations(spec, test.allowed)
		if _, ok := spec.Annotations["dev.gvisor.flag.debug"]; ok != test.stays {
			t.Errorf("%q: stays %t", test.allowed, ok)
		}
	}
}

// What isn't listed must not come back with what is set for the pod's good.
func TestARemovedFlagIsSetByTheRewriteOnly(t *testing.T) {
	noOtherRoots(t)
	root := kubelet(t, "kubelet")
	makeTree(t, root+"/pods/"+ownUID+"/volumes/"+emptyDirPlugin, gcsFuseVolume+"/socket")
	spec := &specs.Spec{Annotations: map[string]string{hostUDS: "all", hintKey(gcsFuseVolume, "type"): "bind"}}
	FilterAnnotations(spec, defaultPatterns)
	d, _, err := Decide(spec, locate(t, spec, Node{KubeletRoot: root}), Node{}, "")
	if err != nil {
		t.Fatal(err)
	}
	d.ApplySandbox(spec)
	if got := spec.Annotations[hostUDS]; got != "open" {
		t.Errorf("%s is %q", hostUDS, got)
	}
}
