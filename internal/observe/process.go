// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Process names one process for good: a pid alone is given away again.
type Process struct {
	PID int `json:"pid"`
	// Start is field 22 of /proc/PID/stat: clock ticks since boot.
	Start string `json:"start"`
	// Space is the PID namespace in which PID counts.
	Space string `json:"space"`
}

// Self names the calling process.
func Self() (Process, error) {
	pid := os.Getpid()
	_, start, err := procStat(pid)
	if err != nil {
		return Process{}, err
	}
	space, err := pidSpace()
	return Process{PID: pid, Start: start, Space: space}, err
}

// StartTime returns when a process was started, in the kernel's words.
func StartTime(pid int) (string, error) {
	_, start, err := procStat(pid)
	return start, err
}

// gone says for sure that the process has ended. From another PID namespace
// that can't be seen.
func (p Process) gone() bool {
	if space, err := pidSpace(); err != nil || space != p.Space {
		return false
	}
	state, start, err := procStat(p.PID)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return true
	}
	// A zombie does nothing any more.
	return err == nil && (start != p.Start || state == 'Z' || state == 'X')
}

func pidSpace() (string, error) { return os.Readlink("/proc/self/ns/pid") }

func procStat(pid int) (state byte, start string, err error) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, "", err
	}
	// The second field is the name in parentheses and may hold anything.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	const startField = 22 - 3 // the third field is the first here
	if len(fields) <= startField {
		return 0, "", fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	return fields[0][0], string(fields[startField]), nil
}
