// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"errors"
	"io/fs"
	"os"
	"sync"
	"time"

	containerdshim "github.com/containerd/containerd/v2/pkg/shim"
	"golang.org/x/sys/unix"
)

// startedEnv holds the socket's address for a shim process that `start` has
// made, handFD is where that hands over the socket, and socketFD where
// containerd's library looks for it (containerd pkg/shim/shim.go:serve).
const (
	startedEnv = "SEDNA_SHIM_ADDRESS"
	socketFD   = 3
	handFD     = 4
)

// listening is the address of this process's socket, "" in every other command
// than the one that serves.
var listening string

// EndWithStart ends a shim process that nobody will ever use, and its socket:
// one whose `start` command was killed, which containerd does when its caller
// cancels, and one whose first Create doesn't come, since containerd has lost
// interest or was killed. Call it first in main: what comes up after it may wait
// for ever on a bundle that is gone. In other commands it does nothing.
func EndWithStart() {
	listening = os.Getenv(startedEnv)
	if listening == "" {
		return
	}
	_ = os.Unsetenv(startedEnv) // not for runsc and the worker
	if err := takeSocket(); err != nil {
		if !containerdshim.CanConnect(listening) {
			_ = containerdshim.RemoveSocket(listening)
		}
		os.Exit(1)
	}
	endWithBundle()
	go func() {
		if !awaitUse(firstCreate, bundleGone, time.Second, unusedTime) {
			exit()
		}
	}()
}

// takeSocket waits for the socket, or for the end of `start`.
func takeSocket() error {
	defer unix.Close(handFD)
	unix.CloseOnExec(handFD)
	rights := make([]byte, unix.CmsgSpace(4))
	n, err := 0, error(unix.EINTR)
	for errors.Is(err, unix.EINTR) {
		_, n, _, _, err = unix.Recvmsg(handFD, make([]byte, 1), rights, unix.MSG_CMSG_CLOEXEC)
	}
	if err != nil {
		return err
	}
	messages, err := unix.ParseSocketControlMessage(rights[:n])
	if err != nil || len(messages) != 1 {
		return errors.Join(err, errNoSocket)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return errors.Join(err, errNoSocket)
	}
	defer unix.Close(fds[0])
	return unix.Dup3(fds[0], socketFD, unix.O_CLOEXEC)
}

var errNoSocket = errors.New("the start command has ended")

// endWithBundle ends the process while it comes up, if its bundle is gone:
// containerd's library would end it too, and leave the socket.
func endWithBundle() {
	if listening != "" && bundleGone() {
		exit()
	}
}

// exit ends the process as far as a file system that hangs lets it.
func exit() {
	if listening != "" {
		_ = containerdshim.RemoveSocket(listening)
	}
	os.Exit(1)
}

// firstCreate is closed when this process is used.
var (
	firstCreate     = make(chan struct{})
	firstCreateOnce sync.Once
)

// useProcess says that the process is used.
func useProcess() { firstCreateOnce.Do(func() { close(firstCreate) }) }

// unusedTime is how long a new process waits for its first Create, which
// containerd sends at once.
const unusedTime = time.Minute

// awaitUse waits until used is closed. It gives up after some time, or sooner
// when the bundle is gone.
func awaitUse(used <-chan struct{}, gone func() bool, tick, limit time.Duration) bool {
	late := time.NewTimer(limit)
	defer late.Stop()
	look := time.NewTicker(tick)
	defer look.Stop()
	for {
		select {
		case <-used:
			return true
		case <-late.C:
			return false
		case <-look.C:
			if gone() {
				return false
			}
		}
	}
}

// bundleGone says whether containerd has removed the bundle that this process was
// started for.
func bundleGone() bool {
	_, err := os.Stat(addressFile)
	return errors.Is(err, fs.ErrNotExist)
}
