// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// watch prints "ready", then the path of every file that inotify reports as
// written, and returns after one called "end". Of several folders it prints the
// files in the order they were written, so what is missing before a later one
// was never reported.
func watch(args []string) error {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		return fmt.Errorf("start inotify: %w", err)
	}
	dirs := map[int32]string{}
	for _, dir := range args {
		wd, err := unix.InotifyAddWatch(fd, dir, unix.IN_CLOSE_WRITE|unix.IN_MOVED_TO)
		if err != nil {
			return fmt.Errorf("watch %s: %w", dir, err)
		}
		dirs[int32(wd)] = dir
	}
	fmt.Println("ready")
	buf := make([]byte, 64<<10)
	for {
		n, err := unix.Read(fd, buf)
		if err != nil {
			return fmt.Errorf("read inotify: %w", err)
		}
		for rest := buf[:n]; len(rest) > 0; {
			event := (*unix.InotifyEvent)(unsafe.Pointer(&rest[0]))
			end := unix.SizeofInotifyEvent + int(event.Len)
			name := string(bytes.TrimRight(rest[unix.SizeofInotifyEvent:end], "\x00"))
			fmt.Println(filepath.Join(dirs[event.Wd], name))
			if name == "end" {
				return nil
			}
			rest = rest[end:]
		}
	}
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
