// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"

	"golang.org/x/sys/unix"
)

// confine takes from the calling thread whatever writing one volume doesn't
// need, for good: what it starts by exec has no more. The order matters, since
// each step may need what the next one takes.
//
// It returns what the kernel lacks; the other bars still hold then.
func (p Place) confine(self string) (lacks []string, err error) {
	// The program started anew opens nothing but its three pipes.
	if err := closeOnExec(); err != nil {
		return nil, err
	}
	if err := limitResources(); err != nil {
		return nil, err
	}
	// Raising it needs no privilege. A worker is the process of a pod that costs
	// least to lose: the next one goes on from where it was.
	if err := os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0); err != nil {
		lacks = append(lacks, fmt.Sprintf("the worker isn't the first to go when memory runs out: %v", err))
	}
	// The signal belongs to a thread, and the one that the shim forked needn't be
	// this one: exec ends all others.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return nil, fmt.Errorf("tie the worker's life to its shim's: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("forbid new privileges: %w", err)
	}
	lack, err := p.restrictFiles(self)
	if err != nil {
		return nil, fmt.Errorf("restrict the worker's files: %w", err)
	}
	if lack != "" {
		lacks = append(lacks, lack)
	}
	if err := dropCapabilities(); err != nil {
		return nil, fmt.Errorf("drop capabilities: %w", err)
	}
	if lack, err = filterCalls(os.Getpid()); err != nil {
		return nil, fmt.Errorf("filter system calls: %w", err)
	}
	if lack != "" {
		lacks = append(lacks, lack)
	}
	return lacks, nil
}

// Settle does what only the program started anew can: exec would undo it.
func Settle() error {
	unix.Umask(0) // the modes of files are ours to say
	// Then /proc/PID/{environ,mem,...} are for the node's root alone, and there's
	// never a core dump with a secret in it.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("hide the worker's memory: %w", err)
	}
	return nil
}

// Apply has Go's runtime keep within what the cgroup allows, before the kernel
// stops it.
func (l Limits) Apply() {
	if l.Memory > 0 {
		debug.SetMemoryLimit(l.Memory / 4 * 3) // the kernel counts page cache and sockets too
	}
	if cores := int((l.CPU + 999) / 1000); cores > 0 {
		// At least two: one that reads while the other waits for a disk.
		runtime.GOMAXPROCS(min(max(cores, 2), runtime.NumCPU()))
	}
}

// maxFiles is how many files a worker may hold open: as many connections and
// folders as storage uses at most, and some.
const maxFiles = 8192

// limitResources bounds what the kernel's other limits don't.
func limitResources() error {
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("forbid core dumps: %w", err)
	}
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return fmt.Errorf("read the limit of open files: %w", err)
	}
	files.Max = min(files.Max, maxFiles)
	files.Cur = files.Max
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return fmt.Errorf("limit open files: %w", err)
	}
	return nil
}

// closeOnExec has exec close every descriptor but the standard streams: a shim
// inherits some that Go doesn't know of.
func closeOnExec() error {
	const first = 3
	err := unix.CloseRange(first, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
	if err == nil || !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EINVAL) {
		return err
	}
	// Before Linux 5.11.
	open, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		return err
	}
	for _, name := range open {
		if fd, err := strconv.Atoi(filepath.Base(name)); err == nil && fd >= first {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}
