// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/sedna-io/containerd-shim-sedna/storage/worker"
)

// How a download can end.
const (
	Success  = "success"
	Failed   = "failure"
	Canceled = "canceled" // the pod was deleted, or whoever asked went away
)

// Result is how the downloads of one pod ended, this time: each attempt to
// create the pod has its own.
type Result struct {
	Time    time.Time  `json:"time"` // of the end
	Pod     worker.Pod `json:"pod"`
	Sandbox string     `json:"sandbox"`
	Result  string     `json:"result"` // Success, Failed or Canceled
	// Bytes are those in the volume now, Fetched those that came over the
	// network this time.
	Bytes   int64   `json:"bytes"`
	Fetched int64   `json:"fetchedBytes"`
	Files   int64   `json:"files"`
	Seconds float64 `json:"seconds"`
	// Memory is the most that the worker took at one time, page cache included;
	// CPU is its time. 0 is what the kernel doesn't count.
	Memory int64   `json:"memoryBytes,omitempty"`
	CPU    float64 `json:"cpuSeconds,omitempty"`
	Items  []Item  `json:"items"`
	// Failure is why, unless it is a success.
	Failure *worker.Failure `json:"failure,omitempty"`
}

// Item is one URL of a Result. Only a Success has its figures.
type Item struct {
	Mounts   []string `json:"mounts"`
	URL      string   `json:"url"`  // redacted
	Host     string   `json:"host"` // that was asked, for s3 the service
	Bytes    int64    `json:"bytes,omitempty"`
	Fetched  int64    `json:"fetchedBytes,omitempty"`
	Files    int64    `json:"files,omitempty"`
	Seconds  float64  `json:"seconds,omitempty"`
	Attempts int      `json:"attempts,omitempty"`
	// Cache is "hit" or "miss" of the node's cache, "found" for what the pod's
	// volume held already, "" where no cache was asked.
	Cache  string `json:"cache,omitempty"`
	Digest string `json:"digest,omitempty"`
}

const (
	resultsFile = "results.jsonl"
	// maxLog is the size at which a log is put aside, bytes: two of them are
	// all that is kept.
	maxLog = 1 << 20
)

// AddResult keeps a result among the node's last.
func (n Node) AddResult(r Result) error {
	line, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode a download's result: %w", err)
	}
	if err := os.MkdirAll(n.State, 0o755); err != nil {
		return err
	}
	d, err := openFolder(n.State, 0)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.lock(); err != nil {
		return err
	}
	return d.appendLine(resultsFile, append(line, '\n'), 0o600)
}

// Results returns the last results of the node, at most so many, oldest first.
// Lines that are none, as a full disk leaves them, are passed over.
func (n Node) Results(last int) ([]Result, error) {
	d, err := openFolder(n.State, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	defer d.Close()
	var all []Result
	for _, name := range []string{resultsFile + old, resultsFile} {
		data, err := d.read(name, 2*maxLog)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for line := range bytes.Lines(data) {
			var r Result
			if json.Unmarshal(line, &r) == nil {
				all = append(all, r)
			}
		}
	}
	return all[max(0, len(all)-last):], nil
}
