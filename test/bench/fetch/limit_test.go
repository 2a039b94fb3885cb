// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
	"unsafe"

	"github.com/dustin/go-humanize"
	"golang.org/x/sys/unix"

	"github.com/sedna-io/containerd-shim-sedna/storage/worker"
)

// BenchmarkMemoryLimit fetches 1 GiB to a disk below memory limits that are
// smaller, as in a pod whose limit is smaller than its model, and reports the
// time, the group's peak, and how much of the file is in the page cache when it's
// there. DISK is a folder on a disk.
func BenchmarkMemoryLimit(b *testing.B) {
	const size = 1 << 30
	ours := build(b)
	root := filepath.Join(scratch(b), "www")
	file(b, filepath.Join(root, "1g"), size)
	addr := nginx(b, root, "")
	for range 3 {
		for _, limit := range []int64{0, 512 << 20, 128 << 20, 64 << 20} {
			dir, err := os.MkdirTemp(cmp.Or(os.Getenv("DISK"), "/var/tmp"), "sedna-bench") //nolint:usetesting // a disk
			if err != nil {
				b.Fatal(err)
			}
			r := fetchBelow(b, limit, ours, "fetch", "http://"+addr+"/1g", dir)
			cached, read := reread(b, filepath.Join(dir, "1g"))
			os.RemoveAll(dir)
			name := "none"
			if limit > 0 {
				name = humanize.IBytes(uint64(limit))
			}
			fmt.Printf("limit %-8s %6.2f s, peak %s, killed %v; cached %3d %%, read again in %.2f s\n",
				name, r.wall.Seconds(), humanize.IBytes(uint64(r.peak)), r.killed, cached*100/size, read.Seconds())
		}
	}
}

type limited struct {
	wall   time.Duration
	peak   int64
	killed bool
}

// fetchBelow runs a command in a control group of its own.
func fetchBelow(b *testing.B, limit int64, args ...string) limited {
	b.Helper()
	g, err := worker.NewGroup(worker.CgroupRoot, "", fmt.Sprintf("bench-%d", os.Getpid()))
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := g.Remove(); err != nil {
			b.Error(err)
		}
	}()
	if _, err := g.Make(worker.Bounds{Memory: limit}); err != nil {
		b.Skipf("no control group to be had: %v", err)
	}
	// It waits until it's in the group.
	cmd := exec.Command("sh", append([]string{"-c", `read go; exec "$@"`, "sh"}, args...)...)
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	if err := g.Add(cmd.Process.Pid); err != nil {
		b.Error(err)
	}
	began := time.Now()
	in.Close()
	err = cmd.Wait()
	r := limited{wall: time.Since(began), peak: g.Usage().Memory}
	if _, _, r.killed = g.Starved(); err != nil && !r.killed {
		b.Error(err)
	}
	return r
}

// reread tells how many bytes of a file are in the page cache, and how long
// reading all of it takes.
func reread(b *testing.B, path string) (cached int, took time.Duration) {
	b.Helper()
	f, err := os.Open(path)
	if err != nil {
		b.Log(err)
		return 0, 0
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		b.Fatal(err)
	}
	data, err := unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		b.Fatal(err)
	}
	pages := make([]byte, (len(data)+os.Getpagesize()-1)/os.Getpagesize())
	_, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&data[0])), uintptr(len(data)), uintptr(unsafe.Pointer(&pages[0])))
	_ = unix.Munmap(data)
	if errno != 0 {
		b.Fatal(errno)
	}
	for _, p := range pages {
		cached += int(p&1) * os.Getpagesize()
	}
	began := time.Now()
	if _, err := io.Copy(io.Discard, struct{ io.Reader }{f}); err != nil {
		b.Fatal(err)
	}
	return cached, time.Since(began)
}
