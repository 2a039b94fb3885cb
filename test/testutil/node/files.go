// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bufio"
	"errors"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// mounts are the mount points of this namespace in the order they were made.
func mounts() ([]string, error) {
	f, err := os.Open("/proc/self/mountinfo")
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
