// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	taskapi "github.com/containerd/containerd/api/runtime/task/v2"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"golang.org/x/sys/unix"

	"github.com/sedna-io/containerd-shim-sedna/shim/bundle"
)

// removeStrays removes what a `runsc create` leaves that was killed in the middle,
// by whomever: a sandbox and a gofer that no state names, so that nothing of
// runsc's would ever end them, and their control group.
func removeStrays(ctx context.Context, r *taskapi.CreateTaskRequest) error {
	if err := endStrays(r.ID, os.Getpid()); err != nil {
		return err
	}
	ns, err := namespaces.NamespaceRequired(ctx)
	if err != nil {
		return err
	}
	b, err := bundle.Load(r.Bundle)
	if err != nil {
		return err
	}
	return errors.Join(removeCgroup(b, r.ID), removeLocks(b, ns, r.ID))
}

// endStrays kills them and waits until they are gone. They have become children
// of the shim, which adopts orphans, or of anybody, 0, when that is dead.
func endStrays(id string, parent int) error {
	deadline := time.Now().Add(killTime)
	for wait := time.Millisecond; ; wait *= 2 {
		pids, err := strays(id, parent)
		if err != nil || len(pids) == 0 {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("processes %v of a container that was never created don't end", pids)
		}
		for _, pid := range pids {
			if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("end process %d: %w", pid, err)
			}
		}
		time.Sleep(min(wait, 50*time.Millisecond))
	}
}

// strays are the children of parent that are runsc's, of that id: runsc names it
// last (gvisor.dev/gvisor runsc/sandbox/sandbox.go:createSandboxProcess).
func strays(id string, parent int) ([]int, error) {
	procs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	child := []byte("PPid:\t")
	if parent != 0 {
		child = []byte("PPid:\t" + strconv.Itoa(parent) + "\n")
	}
	var pids []int
	for _, dir := range procs {
		status, err := os.ReadFile(filepath.Join(dir, "status"))
		if err != nil || !bytes.Contains(status, child) || bytes.Contains(status, []byte("State:\tZ")) {
			continue
		}
		line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err != nil {
			continue
		}
		args := strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")
		if !strings.HasPrefix(filepath.Base(args[0]), "runsc") || args[len(args)-1] != id {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}
