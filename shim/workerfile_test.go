// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sedna-io/containerd-shim-sedna/storage/worker"
)

// sleeper is a process to be ended, or not.
func sleeper(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sleep", "300")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd
}

func TestDeleteEndsTheWorkerOfADeadShim(t *testing.T) {
	dir := t.TempDir()
	cmd := sleeper(t)
	process, err := worker.ProcessOf(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := (workerNote{Process: process}).save(dir); err != nil {
		t.Fatal(err)
	}
	for range 2 { // again and again
		if err := removePod(dir); err != nil {
			t.Fatal(err)
		}
	}
	if err := cmd.Wait(); err == nil || cmd.ProcessState.Sys().(interface{ Signaled() bool }).Signaled() == false {
		t.Errorf("the worker ended with %v, want it killed", err)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}

func TestDeleteSparesAProcessThatGotTheWorkersPID(t *testing.T) {
	dir := t.TempDir()
	cmd := sleeper(t)
	data, err := json.Marshal(workerNote{Process: worker.Process{PID: cmd.Process.Pid, Start: "1"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, workerFile), data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := removePod(dir); err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(cmd.Process.Pid, 0); err != nil {
		t.Errorf("a stranger's process is gone: %v", err)
	}
}
