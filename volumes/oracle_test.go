// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	_ "unsafe" // for go:linkname

	"github.com/containerd/log"
	specs "github.com/opencontainers/runtime-spec/specs-go"
	"gvisor.dev/gvisor/pkg/shim/v1/utils"
)

// kubeletPodsDir is where gVisor's rewrite looks for the volumes of all pods.
//
//go:linkname kubeletPodsDir gvisor.dev/gvisor/pkg/shim/v1/utils.kubeletPodsDir
var kubeletPodsDir string

var (
	oracleSeed  = flag.Uint64("oracle.seed", 0, "seed of the comparison with gVisor; 0 takes the time")
	oracleCases = flag.Int("oracle.cases", 4000, "how many random specs are compared with gVisor")
)

func TestMain(m *testing.M) {
	log.L.Logger.SetOutput(io.Discard) // gVisor's rewrite tells all it does
	os.Exit(m.Run())
}

// theirs runs gVisor's rewrite on a copy of spec.
func theirs(spec *specs.Spec, podsDir string) (*specs.Spec, error) {
	kubeletPodsDir = podsDir
	out := cloneSpec(spec)
	_, err := utils.UpdateVolumeAnnotations(out)
	return out, err
}

func cloneSpec(spec *specs.Spec) *specs.Spec {
	out := *spec
	out.Annotations = maps.Clone(spec.Annotations)
	out.Mounts = slices.Clone(spec.Mounts)
	for i := range out.Mounts {
		out.Mounts[i].Options = slices.Clone(out.Mounts[i].Options)
	}
	if spec.Process != nil {
		process := *spec.Process
		process.Env = slices.Clone(process.Env)
		out.Process = &process
	}
	return &out
}

// text is a spec as JSON: what ends up in config.json.
func text(spec *specs.Spec) string {
	data, err := json.MarshalIndent(spec, "", " ")
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// trial is one spec on one tree.
type trial struct {
	root     string // kubelet's
	sandbox  *specs.Spec
	spec     *specs.Spec // nil, or a container's
	download string
	auto     bool
	tree     string
	// between changes the tree between sandbox and container, and returns what
	// undoes it.
	between func() (undo func())
}

// check compares and returns what is wrong, "" if nothing is.
func (c trial) check() string {
	n := Node{KubeletRoot: c.root, AutoHint: c.auto}
	v, err := Locate(c.sandbox, uidFor(c.sandbox), n)
	if err != nil {
		if plainName(uidFor(c.sandbox)) {
			return "Locate: " + err.Error()
		}
		return ""
	}
	d, _, err := Decide(c.sandbox, v, n, c.download)
	if err != nil {
		if c.download == "" {
			return "Decide: " + err.Error()
		}
		return ""
	}
	if c.spec == nil {
		return c.checkSandbox(v, n, d)
	}
	return c.checkContainer(d)
}

func (c trial) checkSandbox(v *PodVolumes, n Node, d Decisions) string {
	ours := cloneSpec(c.sandbox)
	changed := d.ApplySandbox(ours)
	if changed != (text(ours) != text(c.sandbox)) && len(c.sandbox.Annotations) > 0 {
		return fmt.Sprintf("changed is %t", changed)
	}
	again := cloneSpec(ours)
	d.ApplySandbox(again)
	if text(again) != text(ours) {
		return "a second run changed it:\n" + text(ours) + "\n" + text(again)
	}
	anew, _, err := Decide(again, v, n, c.download)
	if err != nil {
		return "decide again: " + err.Error()
	}
	if anew.ApplySandbox(again); text(again) != text(ours) {
		return "deciding again changed it:\n" + text(ours) + "\n" + text(again)
	}
	// gVisor's rewrite afterwards: nothing, or /dev/shm where it was left to it.
	want := cloneSpec(ours)
	if !d.Shm && (loggedUID(ours.Annotations) != "" || len(typeKeys(ours.Annotations)) == 0) {
		gvisorShm(want)
	}
	after, err := theirs(ours, d.PodsDir)
	if err != nil {
		return "gVisor fails on ours: " + err.Error() + "\n" + text(ours)
	}
	if text(after) != text(want) {
		return "gVisor changes ours:\n" + text(ours) + "\nto\n" + text(after)
	}
	alone, err := theirs(c.sandbox, d.PodsDir)
	if err != nil {
		return c.checkRefusal(d, err)
	}
	if c.addsToSandbox(d) {
		return ""
	}
	if text(after) != text(alone) {
		return "ours:\n" + text(after) + "\ngVisor's:\n" + text(alone)
	}
	return ""
}

// gvisorShm is what is left to gVisor: one bind mount at /dev/shm and its hint.
func gvisorShm(spec *specs.Spec) {
	if source, ok := useOneTmpfs(spec); ok {
		for field, value := range map[string]string{"source": source, "type": "tmpfs", "share": "pod", "options": "rw"} {
			spec.Annotations[hintKey(shmName, field)] = value
		}
	}
}

// shmBinds counts the bind mounts at /dev/shm.
func shmBinds(spec *specs.Spec) (n int) {
	for _, m := range spec.Mounts {
		if isShm(m, typeBind) {
			n++
		}
	}
	return n
}

// checkRefusal: what gVisor fails on, ours removes.
func (c trial) checkRefusal(d Decisions, err error) string {
	if !slices.ContainsFunc(d.Volumes, func(v Volume) bool { return v.Removed }) {
		return "gVisor fails, ours removes nothing: " + err.Error()
	}
	return ""
}

// addsToSandbox says whether ours does more than gVisor: spec/volumes.md 2.
func (c trial) addsToSandbox(d Decisions) bool {
	return c.download != "" || c.auto || shmBinds(c.sandbox) > 1 && d.Shm ||
		d.UID != loggedUID(c.sandbox.Annotations) || // the CRI says it, gVisor can't know
		slices.ContainsFunc(d.Volumes, func(v Volume) bool { return v.Removed })
}

func (c trial) checkContainer(d Decisions) string {
	if c.between != nil {
		defer c.between()()
	}
	ours := cloneSpec(c.spec)
	if _, err := d.ApplyContainer(ours); err != nil {
		return ""
	}
	again := cloneSpec(ours)
	if _, err := d.ApplyContainer(again); err != nil || text(again) != text(ours) {
		return "a second run changed it:\n" + text(ours) + "\n" + text(again)
	}
	after, err := theirs(ours, d.PodsDir)
	if err != nil {
		return "gVisor fails on ours: " + err.Error()
	}
	if text(after) != text(ours) {
		return "gVisor changes ours:\n" + text(ours) + "\nto\n" + text(after)
	}
	alone, err := theirs(c.spec, d.PodsDir)
	if err != nil {
		return "gVisor fails on a container: " + err.Error()
	}
	if c.between != nil || c.addsToContainer(d) {
		return ""
	}
	for _, v := range d.Volumes { // see silence
		if v.NotEmpty || v.Name == gcsFuseVolume {
			for _, key := range typeKeys(alone.Annotations)[v.Name] {
				delete(alone.Annotations, key)
				delete(ours.Annotations, key)
			}
		}
	}
	if text(ours) != text(alone) {
		return "ours:\n" + text(ours) + "\ngVisor's:\n" + text(alone)
	}
	return ""
}

func (c trial) addsToContainer(d Decisions) bool {
	if c.addsToSandbox(d) || shmBinds(c.spec) > 1 {
		return true
	}
	for _, keys := range typeKeys(c.spec.Annotations) {
		if len(keys) > 1 { // gVisor takes the last in the order of a Go map
			return true
		}
	}
	for _, m := range c.spec.Mounts {
		v, _ := d.Find(filepath.Base(m.Source))
		foreign := strings.Contains(m.Source, "/pods/") && m.Source != v.Path
		if foreign || filepath.Clean(m.Destination) == shmPath && d.isOwnEmptyDir(m.Source) {
			return true
		}
	}
	return false
}

// uidFor is what shim/bundle makes of these annotations.
func uidFor(spec *specs.Spec) string {
	if uid := spec.Annotations["io.kubernetes.cri.sandbox-uid"]; uid != "" {
		return uid
	}
	return loggedUID(spec.Annotations)
}

// shrink takes away what the failure doesn't need.
func (c trial) shrink() trial {
	for again := true; again; {
		again = false
		for _, smaller := range c.smaller() {
			if smaller.check() != "" {
				c, again = smaller, true
				break
			}
		}
	}
	return c
}

func (c trial) smaller() []trial {
	var out []trial
	for _, key := range slices.Sorted(maps.Keys(c.sandbox.Annotations)) {
		small := c
		small.sandbox = cloneSpec(c.sandbox)
		delete(small.sandbox.Annotations, key)
		if c.spec != nil && key != utils.ContainerTypeAnnotation {
			small.spec = cloneSpec(c.spec)
			delete(small.spec.Annotations, key)
		}
		out = append(out, small)
	}
	for i := range c.sandbox.Mounts {
		small := c
		small.sandbox = cloneSpec(c.sandbox)
		small.sandbox.Mounts = slices.Delete(small.sandbox.Mounts, i, i+1)
		out = append(out, small)
	}
	if c.spec != nil {
		for i := range c.spec.Mounts {
			small := c
			small.spec = cloneSpec(c.spec)
			small.spec.Mounts = slices.Delete(small.spec.Mounts, i, i+1)
			out = append(out, small)
		}
	}
	return out
}

func (c trial) fail(t *testing.T, how string) {
	t.Helper()
	small := c.shrink()
	message := fmt.Sprintf("%s\ntree:\n%s\nsandbox: %s", how, small.tree, text(small.sandbox))
	if small.spec != nil {
		message += "\ncontainer: " + text(small.spec)
	}
	t.Fatalf("%s\n%s", message, small.check())
}

func TestOursIsGVisorsRewriteAndMore(t *testing.T) {
	seed := *oracleSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	const perTree = 50
	for range max(1, *oracleCases/perTree) {
		w := newWorld(t, rng)
		for range perTree {
			c := w.trial(rng)
			if c.check() != "" {
				c.fail(t, fmt.Sprintf("run again with -oracle.seed=%d", seed))
			}
		}
		if err := os.RemoveAll(w.root); err != nil {
			t.Fatal(err)
		}
	}
}
