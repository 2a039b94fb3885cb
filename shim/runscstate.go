// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"gvisor.dev/gvisor/pkg/shim/v1/proc"
	"gvisor.dev/gvisor/pkg/shim/v1/runsc"

	"github.com/sedna-io/containerd-shim-sedna/shim/bundle"
)

// removeLocks removes the lock files of runsc for a container and its sandbox
// once neither has a state, and the control socket of a sandbox that died while
// it was made. After a shim's death containerd deletes a pod's
// containers side by side, and a runsc that comes late makes the sandbox's lock
// anew: gvisor.dev/gvisor runsc/container/state_file.go.
func removeLocks(b *bundle.Bundle, namespace, id string) error {
	var state runsc.State
	if err := state.Load(b.Dir); err != nil {
		return fmt.Errorf("read gVisor's state: %w", err)
	}
	root := state.Options.Root
	if root == "" {
		root = proc.RunscRoot
	}
	sandbox, ok := bundle.SandboxID(b.Spec.Annotations)
	if !ok {
		sandbox = id
	}
	for _, container := range []string{id, sandbox} {
		name := filepath.Join(root, namespace, container+"_sandbox:"+sandbox)
		if _, err := os.Lstat(name + ".state"); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		left := []string{name + ".lock"}
		if container == sandbox {
			left = append(left, filepath.Join(root, namespace, "runsc-"+sandbox+".sock"))
		}
		for _, file := range left {
			if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("remove what runsc left: %w", err)
			}
		}
	}
	return nil
}
