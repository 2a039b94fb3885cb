// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// removeTime bounds how long the processes of a group may take to go.
const removeTime = 2 * time.Second

// Remove ends what is left in the group and removes it. It may run again, and
// in another process than the one that made it.
func (g *Group) Remove() error {
	var errs []error
	for _, dir := range g.Dirs {
		if err := removeGroup(dir); err != nil {
			errs = append(errs, fmt.Errorf("remove the worker's control group %s: %w", dir, err))
		}
		if parent := filepath.Dir(dir); filepath.Base(parent) == ownParent {
			_ = unix.Rmdir(parent) // the last one out
		}
	}
	if g.Pod != "" && len(g.Enabled) > 0 {
		errs = append(errs, disable(g.Pod, g.Enabled))
	}
	return errors.Join(errs...)
}

// disable undoes enable, as far as there's something to undo. Where others have
// groups by now it stays on: their limits hang on it.
func disable(dir string, controllers []string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) || slices.ContainsFunc(entries, os.DirEntry.IsDir) {
		return nil
	} else if err != nil {
		return fmt.Errorf("look below the pod's control group: %w", err)
	}
	on := words(dir, subtreeFile)
	for _, c := range controllers {
		if !slices.Contains(on, c) {
			continue
		}
		err := writeFile(dir, subtreeFile, "-"+c)
		if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("take the controller %s back from below the pod's control group: %w", c, err)
		}
	}
	return nil
}

// removeGroup removes one folder, once its processes are gone. What lies in a
// file of ours is believed only as far as it looks like a group of ours.
func removeGroup(dir string) error {
	if !filepath.IsAbs(dir) || !strings.HasPrefix(filepath.Base(dir), groupPrefix) {
		return errors.New("that is none of ours")
	}
	deadline := time.Now().Add(removeTime)
	for wait := time.Millisecond; ; wait *= 2 {
		err := unix.Rmdir(dir)
		if err == nil || errors.Is(err, unix.ENOENT) {
			return nil
		}
		if !errors.Is(err, unix.EBUSY) || time.Now().After(deadline) {
			return err
		}
		if err := killAll(dir); err != nil {
			return err
		}
		time.Sleep(min(wait, 50*time.Millisecond))
	}
}

// killAll sends SIGKILL to every process of a group.
func killAll(dir string) error {
	if writeFile(dir, "cgroup.kill", "1") == nil {
		return nil
	}
	// Version 1, or Linux before 5.14.
	for _, word := range words(dir, "cgroup.procs") {
		pid, err := strconv.Atoi(word)
		if err != nil || pid <= 1 {
			continue
		}
		if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("end process %d: %w", pid, err)
		}
	}
	return nil
}
