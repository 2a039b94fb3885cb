// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
)

// Process names one process for good: a pid alone is given away again.
type Process struct {
	PID int `json:"pid,omitempty"`
	// Start is field 22 of /proc/PID/stat: clock ticks since boot.
	Start string `json:"start,omitempty"`
}

// ProcessOf returns the name of a process that runs.
func ProcessOf(pid int) (Process, error) {
	p, _, err := stat(pid)
	return p, err
}

// Runs says whether the very process still runs. A zombie does not.
func (p Process) Runs() bool {
	now, state, err := stat(p.PID)
	return err == nil && now == p && state != 'Z' && state != 'X'
}

func stat(pid int) (p Process, state byte, err error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return Process{}, 0, err
	}
	// The second field is the name in parentheses and may hold anything.
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	const start = 22 - 3 // the third field is the first here
	if len(fields) <= start {
		return Process{}, 0, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	return Process{pid, string(fields[start])}, fields[0][0], nil
}
