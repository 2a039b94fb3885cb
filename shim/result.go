// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/sedna-io/containerd-shim-sedna/storage/worker"
)

// result is how a pod's download ended, for programs: one line of JSON in
// containerd's log, and in the pod's log folder as if a container had said it.
type result struct {
	Pod      worker.Pod       `json:"pod"`
	Mounts   []string         `json:"mounts"`
	Report   *worker.Report   `json:"report,omitempty"`
	Error    string           `json:"error,omitempty"`
	Progress *worker.Progress `json:"progress,omitempty"` // how far it got, with an error
}

// Where the pod's log folder has it: CONTAINER/ATTEMPT.log, as kubelet names
// those of containers (kubernetes pkg/kubelet/kuberuntime/helpers.go).
const (
	resultFolder = "sedna-storage"
	resultFile   = resultFolder + "/0.log"
	resultOld    = resultFolder + "/0.log.1"
	maxResults   = 1 << 20 // bytes, then the file makes place for a new one
)

// tellResult writes the result down. It's for people and never fails a pod.
func (p *sandbox) tellResult(r result) {
	r.Pod, r.Mounts = workerPod(p.pod), p.mountNames()
	line, err := json.Marshal(r)
	if err != nil {
		p.log.WithError(err).Warn("write down how the download went")
		return
	}
	p.log.WithField("result", string(line)).Info("download result")
	if p.pod.LogDirectory == "" {
		return
	}
	if err := appendResult(p.pod.LogDirectory, time.Now(), line); err != nil {
		p.log.WithError(err).Warn("write the download's result into the pod's log folder")
	}
}

// appendResult adds a line in the format of CRI logs: kubernetes
// pkg/kubelet/cri/README, "time stream tag text".
func appendResult(logs string, now time.Time, line []byte) (err error) {
	root, err := os.OpenRoot(logs)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	if err := root.Mkdir(resultFolder, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if info, err := root.Stat(resultFile); err == nil && info.Size() >= maxResults {
		if err := root.Rename(resultFile, resultOld); err != nil {
			return err
		}
	}
	f, err := root.OpenFile(resultFile, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o640)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%s stdout F %s\n", now.UTC().Format(time.RFC3339Nano), line)
	return errors.Join(err, f.Close())
}
