// SPDX-License-Identifier: Apache-2.0

// Package hang mounts file systems that don't answer, as those of a FUSE program
// that sleeps or of a server that is gone.
package hang

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// FileSystem is mounted until it is released.
type FileSystem struct {
	dir    string
	device *os.File
	read   chan struct{} // closed when nobody reads requests any more
}

// Mount mounts a file system at dir. One that takes requests and answers none
// holds whoever asks even against SIGKILL; one that doesn't take them lets go
// then: Linux fs/fuse/dev.c:request_wait_answer.
func Mount(dir string, takes bool) (*FileSystem, error) {
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open /dev/fuse: %w", err)
	}
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", fd)
	if err := unix.Mount("hang", dir, "fuse.hang", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("mount a file system that hangs: %w", err)
	}
	f := &FileSystem{dir: dir, device: os.NewFile(uintptr(fd), "/dev/fuse"), read: make(chan struct{})}
	if !takes {
		close(f.read)
		return f, nil
	}
	go f.take()
	return f, nil
}

// Release ends the file system: whoever waits for it gets an error.
func (f *FileSystem) Release() error {
	// Forced: a reader holds the file.
	err := unix.Unmount(f.dir, unix.MNT_FORCE)
	if errors.Is(err, unix.EINVAL) {
		err = nil // its mount point went first
	}
	if err != nil {
		err = unix.Unmount(f.dir, unix.MNT_DETACH)
	}
	closed := f.device.Close()
	<-f.read
	return errors.Join(err, closed)
}

// Sizes and numbers of the kernel's protocol: Linux include/uapi/linux/fuse.h.
const (
	maxRequest   = 1 << 20
	opInit       = 26
	inHeader     = 40
	outHeader    = 16
	initReply    = 64
	majorVersion = 7
	minorVersion = 31
)

// take reads requests until the file system is released. It answers the first
// one, without which the kernel sends no others.
func (f *FileSystem) take() {
	defer close(f.read)
	request := make([]byte, maxRequest)
	for {
		n, err := unix.Read(int(f.device.Fd()), request)
		if errors.Is(err, unix.EINTR) || errors.Is(err, unix.ENOENT) {
			continue // of a request that was taken back
		}
		if err != nil || n < inHeader {
			return
		}
		if binary.NativeEndian.Uint32(request[4:]) == opInit {
			_, _ = unix.Write(int(f.device.Fd()), hello(request[8:16]))
		}
	}
}

// hello is the answer to the request with that number.
func hello(unique []byte) []byte {
	reply := make([]byte, outHeader+initReply)
	binary.NativeEndian.PutUint32(reply, uint32(len(reply)))
	copy(reply[8:], unique)
	body := reply[outHeader:]
	binary.NativeEndian.PutUint32(body, majorVersion)
	binary.NativeEndian.PutUint32(body[4:], minorVersion)
	binary.NativeEndian.PutUint32(body[20:], 4096) // max_write
	return reply
}
