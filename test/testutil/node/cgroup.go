// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
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
			if err := inheritCpuset(parent, dir); err != nil {
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
