// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil/isolate"
)

// podCgroup is the pod's cgroup as kubelet's cgroupfs driver names it.
func podCgroup(uid string) string { return filepath.Join(isolate.Cgroup(), "pod"+uid) }

// MakeCgroup makes a cgroup in every hierarchy, as kubelet does for a pod before
// it asks for the sandbox.
func MakeCgroup(path string) error {
	for _, hierarchy := range isolate.Hierarchies() {
		dir := hierarchy
		for _, part := range strings.Split(strings.TrimPrefix(path, "/"), "/") {
			parent := dir
			dir = filepath.Join(dir, part)
			if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
				return fmt.Errorf("make cgroup: %w", err)
			}
			if err := errors.Join(inheritCpuset(parent, dir), delegate(parent)); err != nil {
				return err
			}
		}
	}
	return nil
}

// inheritCpuset fills the two files without which a v1 cpuset takes no process.
func inheritCpuset(parent, dir string) error {
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		value, err := os.ReadFile(filepath.Join(parent, file))
		if err != nil {
			continue // no v1 cpuset here
		}
		if err := os.WriteFile(filepath.Join(dir, file), value, 0o644); err != nil {
			return fmt.Errorf("set up cpuset: %w", err)
		}
	}
	return nil
}

// delegate lets the children of a v2 cgroup have limits, as kubelet does down to
// the pod's.
func delegate(dir string) error {
	has, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return nil //nolint:nilerr // v1
	}
	for _, controller := range strings.Fields(string(has)) {
		if controller == "cpuset" { // nothing here has limits of it, and v2 needs none
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+controller), 0o644); err != nil {
			return fmt.Errorf("delegate controllers: %w", err)
		}
	}
	return nil
}

// limitMemory limits the pod's cgroup, in the hierarchy that can.
func limitMemory(uid string, limit int64) error {
	if limit == 0 {
		return nil
	}
	for _, hierarchy := range isolate.Hierarchies() {
		for _, name := range []string{"memory.limit_in_bytes", "memory.max"} {
			file := filepath.Join(hierarchy, podCgroup(uid), name)
			if _, err := os.Stat(file); err != nil {
				continue
			}
			if err := os.WriteFile(file, []byte(strconv.FormatInt(limit, 10)), 0o644); err != nil {
				return fmt.Errorf("limit the pod's memory: %w", err)
			}
			return nil
		}
	}
	return errors.New("limit the pod's memory: no cgroup of the node can")
}

// removeCgroup removes the pod's cgroup once those are gone that others made
// below it, or after a while fails with their names: kubelet too waits for them.
func removeCgroup(uid string) error {
	err := Poll(context.Background(), leftoverTimeout, func(context.Context) error { return removeOwnCgroup(uid) })
	for _, dir := range isolate.Cgroups(podCgroup(uid)) {
		_ = os.Remove(dir)
	}
	return err
}

func removeOwnCgroup(uid string) error {
	var left []string
	for _, dir := range isolate.Cgroups(podCgroup(uid)) {
		// A process that is still ending keeps a cgroup busy.
		if filepath.Base(dir) != "pod"+uid || os.Remove(dir) != nil {
			left = append(left, dir)
		}
	}
	if len(left) > 0 {
		return fmt.Errorf("cgroups left of the pod: %s", strings.Join(left, ", "))
	}
	return nil
}

// orphanage is where containerd puts containers of pods without a cgroup parent,
// by its namespace's name. It isn't ours alone: other containerds use it too.
const orphanage = "k8s.io"

// removeOrphanedCgroups removes the cgroups there that this node has made, whose
// names are then in its log. What still has processes is an error.
func (n *Node) removeOrphanedCgroups() error {
	log := n.Log(0, math.MaxInt32)
	return Poll(context.Background(), leftoverTimeout, func(context.Context) error {
		var errs []error
		for _, dir := range isolate.Cgroups("/" + orphanage) {
			if id := filepath.Base(dir); id != orphanage && strings.Contains(log, id) {
				errs = append(errs, os.Remove(dir))
			} else if id == orphanage {
				_ = os.Remove(dir) // others may be there
			}
		}
		return errors.Join(errs...)
	})
}
