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
// once neither has a state. After a shim's death containerd deletes a pod's
// containers side by side, and a runsc that comes late makes the sandbox's lock
// anew: gvisor.dev/gvisor runsc/container/state_file.go.
func removeLocks(dir, namespace, id string) error {
	b, err := bundle.Load(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	var state runsc.State
	if err := state.Load(dir); err != nil {
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
		if err := os.Remove(name + ".lock"); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove runsc's lock: %w", err)
		}
		if container == sandbox {
			if err := removeControlSocket(filepath.Join(root, namespace), sandbox); err != nil {
				return err
			}
		}
	}
	return nil
}

// removeControlSocket removes a sandbox's socket below runsc's root, which stays
// when runsc is killed before it has written the sandbox's state:
// gvisor.dev/gvisor runsc/sandbox/sandbox.go:controlSocketName.
func removeControlSocket(root, sandbox string) error {
	err := os.Remove(filepath.Join(root, "runsc-"+sandbox+".sock"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove runsc's control socket: %w", err)
	}
	return nil
}
