// SPDX-License-Identifier: Apache-2.0

// Command init is all that runs in the machine of test/cgroup2 beside the tests:
// it mounts what they need, runs them, says how it went, and switches off.
package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

var mounts = []struct{ kind, target, data string }{
	{"proc", "/proc", ""},
	{"sysfs", "/sys", ""},
	{"devtmpfs", "/dev", ""},
	{"cgroup2", "/sys/fs/cgroup", ""},
	{"tmpfs", "/tmp", "mode=1777"},
	{"tmpfs", "/run", ""},
}

func main() {
	if filepath.Base(os.Args[0]) == "sleep" { // the one program that the tests start
		time.Sleep(time.Hour)
		return
	}
	if err := run(); err != nil {
		fmt.Println("cgroup2: FAIL:", err)
	} else {
		fmt.Println("cgroup2: PASS")
	}
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}

// leave copies what there is to a tmpfs: the kernel's first root can't be left
// behind by anybody, and the tests try.
func leave() error {
	const root = "/moved"
	if err := errors.Join(os.Mkdir(root, 0o755), unix.Mount("tmpfs", root, "tmpfs", 0, "mode=755")); err != nil {
		return err
	}
	for _, name := range []string{"init", "bin", "etc", "repo"} {
		if err := copyAll("/"+name, root+"/"+name); err != nil {
			return err
		}
		if err := os.RemoveAll("/" + name); err != nil {
			return err
		}
	}
	return errors.Join(unix.Chdir(root), unix.Mount(".", "/", "", unix.MS_MOVE, ""), unix.Chroot("."), unix.Chdir("/"))
}

func copyAll(from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return os.CopyFS(to, os.DirFS(from))
	}
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o755)
}

func run() error {
	if err := loadModules("/modules"); err != nil {
		return err
	}
	if err := leave(); err != nil {
		return fmt.Errorf("make a root: %w", err)
	}
	for _, m := range mounts {
		if err := errors.Join(os.MkdirAll(m.target, 0o755), unix.Mount(m.kind, m.target, m.kind, 0, m.data)); err != nil {
			return fmt.Errorf("mount %s: %w", m.target, err)
		}
	}
	if err := errors.Join(os.MkdirAll("/var/lib", 0o755), os.Symlink("/init", "/bin/sleep")); err != nil {
		return err
	}
	var failed []string
	err := filepath.WalkDir("/repo", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".test" {
			if err := runTests(path); err != nil {
				failed = append(failed, fmt.Sprintf("%s: %v", filepath.Base(path), err))
			}
		}
		return err
	})
	if err != nil {
		return err
	}
	if len(failed) > 0 {
		return errors.New(strings.Join(failed, "; "))
	}
	return nil
}

// runTests runs a package's tests in its folder, those that its file "tests"
// names.
func runTests(path string) error {
	cmd := exec.Command(path, "-test.v", "-test.timeout", "8m")
	if chosen, err := os.ReadFile(filepath.Join(filepath.Dir(path), "tests")); err == nil {
		cmd.Args = append(cmd.Args, "-test.run", string(chosen))
	}
	cmd.Dir = filepath.Dir(path)
	cmd.Env = []string{"PATH=/bin", "HOME=/", "TMPDIR=/tmp", "SEDNA_TEST_PATIENCE=10"}
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stdout
	return cmd.Run()
}

// loadModules loads the kernel's modules of a folder in the order of their names.
func loadModules(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.ko"))
	if err != nil {
		return err
	}
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			return err
		}
		err = unix.FinitModule(int(f.Fd()), "", 0)
		_ = f.Close()
		if err != nil {
			return fmt.Errorf("load %s: %w", file, err)
		}
	}
	return nil
}
