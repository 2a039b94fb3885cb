// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/containerd/log"

	"github.com/sedna-io/containerd-shim-sedna/storage/worker"
)

// runningDir is worker.RunningDir; a test has its own.
var runningDir = worker.RunningDir

// running keeps the file by which `sedna-storage ps` knows of a download. A
// node where it can't be written still downloads.
type running struct {
	path string
	log  *log.Entry

	mu   sync.Mutex
	told bool           // that it can't be written; guarded by mu
	now  worker.Running // guarded by mu
}

// running describes the pod's download, which has not begun.
func (p *sandbox) running() *running {
	return &running{
		path: filepath.Join(runningDir, p.pod.SandboxID+".json"), log: p.log,
		now: worker.Running{Pod: workerPod(p.pod), Mounts: p.mountNames(), Since: time.Now()},
	}
}

func (r *running) begin(process worker.Process) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now.Process = process
	r.write()
}

func (r *running) update(progress worker.Progress) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now.Progress = progress
	r.write()
}

// write replaces the file; r.mu is held.
func (r *running) write() {
	r.now.At = time.Now()
	data, err := json.Marshal(r.now)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(r.path), 0o755)
	}
	if err == nil {
		err = os.WriteFile(r.path+unfinished, data, 0o600)
	}
	if err == nil {
		err = os.Rename(r.path+unfinished, r.path)
	}
	if err != nil && !r.told {
		r.told = true
		r.log.WithError(err).Warn("sedna-storage ps won't show this download")
	}
}

// unfinished ends the name of a file that is being written. Nobody else writes
// it, and it needn't outlast a reset.
const unfinished = ".new"

// removeRunning removes the files of a sandbox.
func removeRunning(sandbox string) error {
	if sandbox == "" || strings.ContainsRune(sandbox, '/') {
		return nil
	}
	path := filepath.Join(runningDir, sandbox+".json")
	for _, file := range []string{path + unfinished, path} {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("forget a download: %w", err)
		}
	}
	return nil
}
