// SPDX-License-Identifier: Apache-2.0

package isolate

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// The environment says which of the three processes this is, and the name of
// the cgroup that all of them share.
const (
	stageEnv  = "SEDNA_ISOLATE_STAGE"
	cgroupEnv = "SEDNA_ISOLATE_CGROUP"

	stageInit = "init"
	stageMain = "main"
)

// exitBroken is the exit code when the namespaces could not be set up.
const exitBroken = 70

// Run calls main inside the namespaces and returns its exit code, for
// os.Exit. In the first process prepare runs before that, with the machine's
// own network and file system: the place to build binaries. Where namespaces
// can't be made, main runs right here and Unavailable says why.
func Run(prepare func() error, main func() int) int {
	switch os.Getenv(stageEnv) {
	case stageMain:
		return main()
	case stageInit:
		return runInit()
	}
	if Unavailable() != "" {
		return main()
	}
	if err := prepare(); err != nil {
		fmt.Fprintln(os.Stderr, "prepare for the isolated run:", err)
		return exitBroken
	}
	code, err := runOuter()
	if err != nil {
		fmt.Fprintln(os.Stderr, "isolate:", err)
		return exitBroken
	}
	return code
}

// Unavailable is the reason why this process isn't isolated and can't be, or
// "" when it is or can be.
func Unavailable() string {
	if os.Geteuid() != 0 {
		return "needs root for namespaces, mounts and cgroups"
	}
	return ""
}

// Inside says whether this process runs in the namespaces.
func Inside() bool { return os.Getenv(stageEnv) == stageMain }

// runOuter starts init and waits for it.
func runOuter() (int, error) {
	// The parent-death signal follows the thread that forks.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	sweepStale()
	group := cgroupPrefix + strconv.Itoa(os.Getpid())
	defer sweepCgroup(group)
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), stageEnv+"="+stageInit, cgroupEnv+"="+group)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWPID,
		Pdeathsig:  unix.SIGKILL,
		// Ctrl-C goes to the terminal's whole process group. It must reach
		// main alone, through us, and not containerd at the same time.
		Setpgid: true,
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM, unix.SIGQUIT, unix.SIGHUP)
	defer signal.Stop(signals)
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("start in new namespaces: %w", err)
	}
	go relay(signals, cmd.Process.Pid)
	if err := cmd.Wait(); err != nil && cmd.ProcessState == nil {
		return 0, fmt.Errorf("wait for the namespaces' init: %w", err)
	}
	return exitCode(cmd.ProcessState.Sys().(syscall.WaitStatus)), nil
}

// relay sends each signal on to a process.
func relay(signals <-chan os.Signal, pid int) {
	for sig := range signals {
		_ = unix.Kill(pid, sig.(syscall.Signal))
	}
}

// exitCode is what a shell would say.
func exitCode(status syscall.WaitStatus) int {
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}
