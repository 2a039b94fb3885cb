// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ours are the signals that this process lives by: containerd pkg/shim/shim_unix.go.
var ours = sigset(unix.SIGCHLD, unix.SIGTERM, unix.SIGINT, unix.SIGUSR1)

// sigset is a set of signals, as the kernel has it.
func sigset(signals ...unix.Signal) *unix.Sigset_t {
	var set unix.Sigset_t
	width := 8 * int(unsafe.Sizeof(set.Val[0]))
	for _, s := range signals {
		n := int(s) - 1
		set.Val[n/width] |= 1 << (n % width)
	}
	return &set
}

// quietly calls f, which may hang in the kernel, on a thread that takes none of
// this process's signals. The kernel gives a signal to any thread that doesn't
// block it, and holds back further ones of its kind until that thread has taken
// it: a thread that hangs would keep SIGCHLD to itself, so that nobody hears that
// a runsc has ended, and every call hangs too.
func quietly[T any](f func() T) T {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before unix.Sigset_t
	if unix.PthreadSigmask(unix.SIG_BLOCK, ours, &before) == nil {
		defer func() { _ = unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil) }()
	}
	return f()
}
