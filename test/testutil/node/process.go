// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Process is a process of the namespaces.
type Process struct {
	PID   int
	Args  []string
	State string // "S", "Z", ...
}

// Processes are all processes of the namespaces, by pid.
func Processes() ([]Process, error) {
	dirs, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var all []Process
	for _, dir := range dirs {
		pid, err := strconv.Atoi(dir.Name())
		if err != nil {
			continue
		}
		if process, ok := readProcess(pid); ok {
			all = append(all, process)
		}
	}
	return all, nil
}

// readProcess is false for a process that has gone in between.
func readProcess(pid int) (Process, bool) {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return Process{}, false
	}
	cmdline, err := os.ReadFile(filepath.Join(dir, "cmdline"))
	if err != nil {
		return Process{}, false
	}
	// The name in brackets may hold spaces and brackets itself.
	_, after, _ := strings.Cut(string(stat[strings.LastIndexByte(string(stat), ')'):]), " ")
	state, _, _ := strings.Cut(after, " ")
	return Process{PID: pid, State: state, Args: strings.Split(strings.TrimRight(string(cmdline), "\x00"), "\x00")}, true
}

// Command is the command line for people.
func (p Process) Command() string { return strings.Join(p.Args, " ") }

// Dir is the working directory: a shim's is the bundle it was started in.
func (p Process) Dir() (string, error) {
	return os.Readlink(filepath.Join("/proc", strconv.Itoa(p.PID), "cwd"))
}

// Kill sends SIGKILL.
func (p Process) Kill() error { return unix.Kill(p.PID, unix.SIGKILL) }

// Find lists the processes of a program, by its base name, whose arguments
// hold all the given ones.
func Find(program string, args ...string) ([]Process, error) {
	all, err := Processes()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(p Process) bool {
		if p.State == "Z" || filepath.Base(p.Args[0]) != program {
			return true
		}
		for _, arg := range args {
			if !slices.Contains(p.Args, arg) {
				return true
			}
		}
		return false
	}), nil
}

// PSS is the process's proportional set size in bytes: memory shared with
// others counts by its share.
func (p Process) PSS() (int64, error) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.PID), "smaps_rollup"))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "Pss:" {
			kib, err := strconv.ParseInt(fields[1], 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("no Pss in smaps_rollup of process %d", p.PID)
}
