// SPDX-License-Identifier: Apache-2.0

package isolate

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// emptied are the folders that are empty inside: run files and state of
// containerd, CNI, kubelet, runsc and the shim live below them.
var emptied = []string{"/run", "/var/lib"}

// runInit is pid 1 of the namespaces. It ends with main, and then the kernel
// ends everything else.
func runInit() int {
	if err := furnish(); err != nil {
		fmt.Fprintln(os.Stderr, "isolate: init:", err)
		return exitBroken
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM, unix.SIGQUIT, unix.SIGHUP)
	pid, err := startMain()
	if err != nil {
		fmt.Fprintln(os.Stderr, "isolate: start main:", err)
		return exitBroken
	}
	go relay(signals, pid)
	return reapUntil(pid)
}

// furnish makes the machine: private mounts, its own /proc, empty folders, lo.
func furnish() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	for _, dir := range emptied {
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=0755"); err != nil {
			return fmt.Errorf("empty %s: %w", dir, err)
		}
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("find lo: %w", err)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return fmt.Errorf("bring lo up: %w", err)
	}
	return nil
}

// startMain forks without os/exec: its bookkeeping and our wait4 would race.
func startMain() (int, error) {
	if err := os.Setenv(stageEnv, stageMain); err != nil {
		return 0, err
	}
	return syscall.ForkExec("/proc/self/exe", os.Args, &syscall.ProcAttr{
		Env:   os.Environ(),
		Files: []uintptr{0, 1, 2},
	})
}

// reapUntil reaps every orphan, and returns with main's exit code.
func reapUntil(main int) int {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			fmt.Fprintln(os.Stderr, "isolate: wait:", err)
			return exitBroken
		case pid == main:
			return exitCode(status)
		}
	}
}
