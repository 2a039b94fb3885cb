// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// mounts are the mount points of this namespace in the order they were made.
func mounts() ([]string, error) {
	f, err := os.Open("/proc/thread-self/mountinfo") // "self" is what the first thread sees
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var points []string
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if fields := strings.Fields(lines.Text()); len(fields) > 4 {
			points = append(points, fields[4])
		}
	}
	return points, lines.Err()
}

// unmountBelow unmounts everything below a folder, the newest mount first.
func unmountBelow(dir string) error {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real // as the kernel names it
	}
	points, err := mounts()
	if err != nil {
		return err
	}
	slices.Reverse(points)
	var errs []error
	for _, point := range points {
		if strings.HasPrefix(point, dir+"/") {
			errs = append(errs, unix.Unmount(point, unix.MNT_DETACH))
		}
	}
	return errors.Join(errs...)
}

// DiskUsage is what the files below a folder take, as kubelet counts it for an
// emptyDir: by blocks, kubernetes pkg/volume/util/fs/fs.go:DiskUsage.
func DiskUsage(dir string) (int64, error) {
	var bytes int64
	err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		var stat unix.Stat_t
		if err := unix.Lstat(name, &stat); err != nil {
			return fmt.Errorf("stat %s: %w", name, err)
		}
		bytes += stat.Blocks * 512
		return nil
	})
	return bytes, err
}

// Entries are the names in a folder; none if it doesn't exist.
func Entries(dir string) []string {
	list, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	names := make([]string, 0, len(list))
	for _, entry := range list {
		names = append(names, entry.Name())
	}
	return names
}
