// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// RunningDir has a file SANDBOX.json with a Running for each download on this
// node, mode 0600 since it names pods and URLs. The pod's shim keeps it.
const RunningDir = "/run/sedna/downloads"

// Running is one download that is going on.
type Running struct {
	Process
	Pod    Pod       `json:"pod"`
	Mounts []string  `json:"mounts"`
	Since  time.Time `json:"since"`
	// Progress is the last that the worker told, at At.
	Progress Progress  `json:"progress"`
	At       time.Time `json:"at"`
}

// Process names one process for good: a pid alone is given away again.
type Process struct {
	PID int `json:"pid,omitempty"`
	// Start is field 22 of /proc/PID/stat: clock ticks since boot.
	Start string `json:"start,omitempty"`
}

// ProcessOf returns the name of a process that runs.
func ProcessOf(pid int) (Process, error) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return Process{}, err
	}
	// The second field is the name in parentheses and may hold anything.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	const start = 22 - 3 // the third field is the first here
	if len(fields) <= start {
		return Process{}, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	return Process{pid, string(fields[start])}, nil
}

// Runs says whether the very process still runs.
func (p Process) Runs() bool {
	now, err := ProcessOf(p.PID)
	return err == nil && now == p
}

// ReadRunning returns the downloads of a node, those whose process still runs.
func ReadRunning(dir string) ([]Running, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	var all []Running
	for _, e := range entries {
		if filepath.Ext(e.Name()) != ".json" {
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue // just done
		} else if err != nil {
			return nil, err
		}
		var r Running
		if err := json.Unmarshal(data, &r); err != nil {
			return nil, fmt.Errorf("read %s: %w", filepath.Join(dir, e.Name()), err)
		}
		if r.Runs() {
			all = append(all, r)
		}
	}
	return all, nil
}
