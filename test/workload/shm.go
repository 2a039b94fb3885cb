// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"path"

	"golang.org/x/sys/unix"
)

// shmSize is the size of the shared memory that shm makes.
const shmSize = 4096

// shm does what shm_open(3), ftruncate and mmap do for a program that shares
// memory with others: glibc opens the name below /dev/shm, musl too.
func shm(args []string) error {
	name := path.Join("/dev/shm", args[0])
	flags := unix.O_RDWR | unix.O_NOFOLLOW | unix.O_CLOEXEC
	if len(args) > 1 {
		flags |= unix.O_CREAT | unix.O_EXCL
	}
	fd, err := unix.Open(name, flags, 0o600)
	if err != nil {
		return fmt.Errorf("open %s: %w", name, err)
	}
	defer unix.Close(fd)
	if len(args) > 1 {
		if err := unix.Ftruncate(fd, shmSize); err != nil {
			return fmt.Errorf("size %s: %w", name, err)
		}
	}
	memory, err := unix.Mmap(fd, 0, shmSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("map %s: %w", name, err)
	}
	if len(args) > 1 {
		copy(memory, args[1])
		return nil
	}
	fmt.Println(string(bytes.TrimRight(memory, "\x00")))
	return nil
}
