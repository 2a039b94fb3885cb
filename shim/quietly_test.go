// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// blocked says whether this thread blocks a signal.
func blocked(t *testing.T, signal unix.Signal) bool {
	t.Helper()
	status, err := os.ReadFile("/proc/thread-self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(status), "SigBlk:\t")
	line, _, _ := strings.Cut(after, "\n")
	mask, err := strconv.ParseUint(line, 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	return mask&(1<<(signal-1)) != 0
}

func TestAThreadThatMayHangTakesNoSignals(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	held := quietly(func() bool { return blocked(t, unix.SIGCHLD) && blocked(t, unix.SIGTERM) })
	if !held {
		t.Error("it would keep the end of a child to itself")
	}
	if blocked(t, unix.SIGCHLD) {
		t.Error("the thread stays deaf")
	}
}
