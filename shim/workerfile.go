// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sedna-io/containerd-shim-sedna/storage/worker"
)

// workerFile in the sandbox's bundle names the worker's process and its control
// group while there is one, for a `delete` after the shim's death.
const workerFile = "sedna-worker.json"

// workerNote is what workerFile holds. PID is 0 before there is a process.
type workerNote struct {
	worker.Process
	Sandbox string        `json:"sandbox,omitempty"` // its id
	Group   *worker.Group `json:"group,omitempty"`
}

// save writes workerFile: before anything is made, and again when the process
// runs.
func (w workerNote) save(bundle string) error {
	data, err := json.Marshal(w)
	if err != nil {
		return err
	}
	return writeWhole(filepath.Join(bundle, workerFile), data)
}

// forgetWorker removes workerFile once the process is gone.
func forgetWorker(bundle string) error {
	if err := os.Remove(filepath.Join(bundle, workerFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// removeWorker ends the worker that a dead shim left, if it still runs: it dies
// with its shim, so that is a matter of moments.
func removeWorker(bundle string) error {
	data, err := os.ReadFile(filepath.Join(bundle, workerFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("look for a worker: %w", err)
	}
	var w workerNote
	if err := json.Unmarshal(data, &w); err != nil {
		return fmt.Errorf("read %s: %w", workerFile, err)
	}
	if err := w.end(); err != nil {
		return err
	}
	if w.Group != nil {
		if err := w.Group.Remove(); err != nil {
			return err
		}
	}
	if err := removeRunning(w.Sandbox); err != nil {
		return err
	}
	return forgetWorker(bundle)
}

// killTime bounds how long a killed worker may take to go.
const killTime = 2 * time.Second

// end kills the process and waits until it is gone.
func (w workerNote) end() error {
	if w.PID == 0 {
		return nil
	}
	fd, err := unix.PidfdOpen(w.PID, 0)
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) {
		return nil
	} else if err != nil {
		return fmt.Errorf("open the worker's process %d: %w", w.PID, err)
	}
	defer unix.Close(fd)
	// The descriptor holds the process; only now is its start time worth asking.
	if !w.Runs() {
		return nil
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("kill the worker's process %d: %w", w.PID, err)
	}
	poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	deadline := time.Now().Add(killTime)
	for {
		left := time.Until(deadline)
		if left <= 0 {
			return fmt.Errorf("the worker's process %d does not end", w.PID)
		}
		n, err := unix.Poll(poll, int(left.Milliseconds())+1)
		if n > 0 {
			return nil
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("wait for the worker's process %d: %w", w.PID, err)
		}
	}
}
