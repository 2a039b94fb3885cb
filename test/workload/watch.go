// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// watch prints "ready", then the name of the first file that inotify reports.
func watch(args []string) error {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		return fmt.Errorf("start inotify: %w", err)
	}
	if _, err := unix.InotifyAddWatch(fd, args[0], unix.IN_CREATE|unix.IN_CLOSE_WRITE|unix.IN_MOVED_TO); err != nil {
		return fmt.Errorf("watch %s: %w", args[0], err)
	}
	fmt.Println("ready")
	buf := make([]byte, unix.SizeofInotifyEvent+unix.NAME_MAX+1)
	n, err := unix.Read(fd, buf)
	if err != nil {
		return fmt.Errorf("read inotify: %w", err)
	}
	event := (*unix.InotifyEvent)(unsafe.Pointer(&buf[0]))
	name := buf[unix.SizeofInotifyEvent:n][:event.Len]
	fmt.Println(string(bytes.TrimRight(name, "\x00")))
	return nil
}

// waitFor polls: it is for files that inotify can't see.
func waitFor(args []string) error {
	for {
		_, err := os.Stat(args[0])
		if err == nil || !errors.Is(err, os.ErrNotExist) {
			return err
		}
		time.Sleep(5 * time.Millisecond)
	}
}
