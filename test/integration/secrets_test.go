// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/node"
)

// Everything that a process of the node shows, while a download is running and
// while the pod runs, is searched for the secrets that it uses.
func TestSecretsShowNowhereOnTheNode(t *testing.T) {
	h := newHalfway(t, node.Sedna)
	h.Spec.Annotations["storage.sedna.io/model.url"] += "?signature=" + canary
	result := make(chan error, 1)
	go func() { result <- h.Pod.Run(testutil.Context(t)) }()
	<-h.gate.Reached
	lookInProcesses(t)
	lookInFiles(t, h.VolumeDir(volume), "/run/sedna")
	h.gate.Open()
	if err := <-result; err != nil {
		t.Fatal(err)
	}
	container := h.Start(t, node.ContainerSpec{})
	lookInProcesses(t)
	// The bundles, among them the config.json that runsc got, and the record.
	lookInFiles(t, h.VolumeDir(volume), "/run/sedna", "/run/containerd", node.StateDir)
	lacks(t, container.Exec(t, "env"), canary)
	lacks(t, h.node.Log(0, 1<<20), canary)
}

// lookInProcesses searches arguments and environments.
func lookInProcesses(t *testing.T) {
	t.Helper()
	all, err := node.Processes()
	if err != nil {
		t.Fatal(err)
	}
	for _, process := range all {
		environ, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(process.PID), "environ"))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Error(err)
		}
		if strings.Contains(process.Command(), canary) || bytes.Contains(environ, []byte(canary)) {
			t.Errorf("the secret is in the arguments or environment of %s", process.Command())
		}
	}
}

// lookInFiles searches all regular files below folders. A container's root file
// system is left out: it is the workload's.
func lookInFiles(t *testing.T, dirs ...string) {
	t.Helper()
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
			switch {
			case errors.Is(err, os.ErrNotExist):
				return nil
			case err != nil:
				return err
			case entry.IsDir() && entry.Name() == "rootfs":
				return filepath.SkipDir
			case !entry.Type().IsRegular() || entry.Name() == "null-netns": // which can't be read
				return nil
			}
			content, err := os.ReadFile(name)
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
			if bytes.Contains(content, []byte(canary)) {
				t.Errorf("the secret is in %s", name)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}
