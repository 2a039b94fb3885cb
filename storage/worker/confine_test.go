// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// tries are what a worker that was taken over might do, each an error when it
// is stopped. The volume is its own; beside it lies another pod's.
var tries = []struct {
	name string
	do   func(volume string) error
}{
	{"read /etc/shadow", func(string) error { return peek("/etc/shadow") }},
	{"read another pod's volume", func(v string) error { return peek(v + "-other/secret") }},
	{"list another pod's volume", func(v string) error { _, err := os.ReadDir(v + "-other"); return err }},
	{"write another pod's volume", func(v string) error { return os.WriteFile(v+"-other/new", nil, 0o600) }},
	{"remove another pod's file", func(v string) error { return os.Remove(v + "-other/secret") }},
	{"rename a file out", func(v string) error { return os.Rename(v+"/own", v+"-other/own") }},
	{"link a file in", func(v string) error { return os.Link(v+"-other/secret", v+"/secret") }},
	{"read through a link", func(v string) error {
		if err := os.Symlink(v+"-other/secret", v+"/link"); err != nil {
			return nil
		}
		return peek(v + "/link")
	}},
	{"make a device", func(v string) error { return unix.Mknod(v+"/disk", unix.S_IFBLK|0o600, int(unix.Mkdev(8, 0))) }},
	{"chown a file", func(v string) error { return os.Chown(v+"/own", 1000, 1000) }},
	{"run a program of the volume", func(v string) error {
		if err := os.WriteFile(v+"/program", []byte("#!/bin/sh\n"), 0o755); err != nil {
			return nil
		}
		return unix.Exec(v+"/program", []string{"program"}, nil)
	}},
	{"run a program of the node", func(string) error { return unix.Exec("/bin/true", []string{"true"}, nil) }},
	{"start a process", func(string) error {
		pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
		if errno != 0 {
			return errno
		}
		if pid == 0 {
			unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
		}
		return nil
	}},
	{"start a process by clone3", func(string) error {
		var args [11]uint64
		_, _, errno := unix.RawSyscall(unix.SYS_CLONE3, 0, uintptr(len(args)*8), 0) // EFAULT if it's let through
		if errno == unix.EFAULT || errno == 0 {
			return nil
		}
		return errno
	}},
	{"trace the parent", func(string) error { return unix.PtraceAttach(os.Getppid()) }},
	{"read the parent's memory", func(string) error { return peek(fmt.Sprintf("/proc/%d/mem", os.Getppid())) }},
	{"read the parent's environment", func(string) error { return peek(fmt.Sprintf("/proc/%d/environ", os.Getppid())) }},
	{"go through the parent's root", func(string) error { return peek(fmt.Sprintf("/proc/%d/root/etc/shadow", os.Getppid())) }},
	{"signal the parent", func(string) error { return unix.Kill(os.Getppid(), 0) }},
	{"signal everybody", func(string) error { return unix.Kill(-1, 0) }},
	{"outlive the parent", func(string) error { return unix.Prctl(unix.PR_SET_PDEATHSIG, 0, 0, 0, 0) }},
	{"call a daemon of the node", func(v string) error {
		c, err := net.Dial("unix", v+"-other/daemon.sock")
		if err == nil {
			c.Close()
		}
		return err
	}},
	{"open a raw socket", func(string) error {
		_, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP)
		return err
	}},
	{"ask the kernel's netlink", func(string) error { _, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, 0); return err }},
	{"mount", func(v string) error { return unix.Mount("tmpfs", v, "tmpfs", 0, "") }},
	{"make namespaces", func(string) error { return unix.Unshare(unix.CLONE_NEWUSER) }},
	{"enter the node's network", func(string) error { return unix.Setns(0, unix.CLONE_NEWNET) }},
	{"load a program into the kernel", func(string) error {
		_, _, errno := unix.Syscall(unix.SYS_BPF, 0, 0, 0)
		if errno == unix.EPERM {
			return errno
		}
		return nil
	}},
	{"use io_uring", func(string) error {
		_, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, 0, 0)
		if errno == unix.EPERM {
			return errno
		}
		return nil
	}},
	{"take a capability back", func(string) error {
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		all := [2]unix.CapUserData{{Effective: ^uint32(0), Permitted: ^uint32(0)}, {}}
		return unix.Capset(&header, &all[0])
	}},
	{"raise a limit", func(string) error {
		return unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: 1 << 30, Max: 1 << 30})
	}},
}

func peek(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.Read(make([]byte, 1))
	return err
}

// works is what a worker must still be able to do, each an error when it can't.
var works = []struct {
	name string
	do   func(volume string) error
}{
	{"write a file", func(v string) error { return os.WriteFile(v+"/a", []byte("x"), 0o644) }},
	{"make folders", func(v string) error { return os.MkdirAll(v+"/x/y", 0o755) }},
	{"rename between folders", func(v string) error { return os.Rename(v+"/a", v+"/x/y/b") }},
	{"link between folders", func(v string) error { return os.Link(v+"/x/y/b", v+"/x/b") }},
	{"make a link", func(v string) error { return os.Symlink("y/b", v+"/x/c") }},
	{"chmod its own", func(v string) error { return os.Chmod(v+"/x/b", 0o755) }},
	{"remove", func(v string) error { return os.RemoveAll(v + "/x") }},
	{"write a folder of another user", func(v string) error { return os.WriteFile(v+"/theirs/file", nil, 0o644) }},
	{"read names", func(string) error { return peek("/etc/resolv.conf") }},
	{"read hosts", func(string) error { return peek("/etc/hosts") }},
	{"read the boot's id", func(string) error { return peek("/proc/sys/kernel/random/boot_id") }},
	{"open a socket", func(string) error { return socket(unix.AF_INET) }},
	{"open a socket of IPv6", func(string) error { return socket(unix.AF_INET6) }},
	{"start threads", func(string) error {
		done := make(chan bool)
		for range 8 {
			go func() { runtime.LockOSThread(); done <- true }()
		}
		for range 8 {
			<-done
		}
		return nil
	}},
}

func socket(family int) error {
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// attack tries everything and tells how it went, the state of the process last.
func attack(volume string, tell func(try, result string)) {
	say := func(name string, err error) {
		if err != nil {
			tell(name, "error: "+err.Error())
			return
		}
		tell(name, "done")
	}
	for _, w := range works {
		say(w.name, w.do(volume))
	}
	for _, t := range tries {
		say(t.name, t.do(volume))
	}
	dumpable, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	tell("dumpable", fmt.Sprint(dumpable, err))
	// Those of Go's own poller are no files.
	var open []string
	for fd := 3; fd < 1024; fd++ {
		var st unix.Stat_t
		if unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT != 0 {
			open = append(open, fmt.Sprintf("%d:%o", fd, st.Mode))
		}
	}
	tell("descriptors", strings.Join(open, " "))
}

// oldKernel ends the name of a volume whose worker does without Landlock.
const oldKernel = "-old"

// volume is a pod's volume beside another pod's, as a compromised worker would
// find them.
func volume(t *testing.T, name string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("a worker is held by means that need root")
	}
	base, err := os.MkdirTemp("", "") //nolint:usetesting // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(base) })
	own := filepath.Join(base, name)
	other := own + "-other"
	for _, dir := range []string{own, other, own + "/theirs"} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{own + "/own", other + "/secret"} {
		if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// As a user's program may leave it: a folder with its group's bit, closed to others.
	if err := errors.Join(os.Chown(own+"/theirs", 1000, 2000), os.Chmod(own+"/theirs", 0o2770|os.ModeSetgid)); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", other+"/daemon.sock")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return own
}

func TestATakenOverWorkerIsStoppedAtEveryBar(t *testing.T) {
	t.Run("Landlock", func(t *testing.T) {
		if !hasLandlock() {
			t.Skip("this kernel has no Landlock")
		}
		stopped(t, volume(t, "volume"))
	})
	t.Run("a root of its own", func(t *testing.T) { stopped(t, volume(t, "volume"+oldKernel)) })
}

// stopped has a worker try everything.
func stopped(t *testing.T, dir string) {
	t.Helper()
	inherited, err := unix.Open("/etc/passwd", unix.O_RDONLY, 0) // not close-on-exec
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(inherited)
	req := request(t, "attack")
	req.Dir = dir
	got := map[string]string{}
	_, err = command(t).Run(t.Context(), req, func(e Event) {
		if e.Log != nil {
			got[e.Log.Level] = e.Log.Message
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range works {
		if got[w.name] != "done" {
			t.Errorf("%s: %q; the work needs it", w.name, got[w.name])
		}
	}
	for _, try := range tries {
		switch {
		case !strings.HasPrefix(got[try.name], "error: "):
			t.Errorf("%s: %q; it wasn't stopped", try.name, got[try.name])
		default:
			t.Logf("%s: %s", try.name, got[try.name])
		}
	}
	if got["dumpable"] != "0 <nil>" {
		t.Errorf("dumpable is %q", got["dumpable"])
	}
	if got["descriptors"] != "" {
		t.Errorf("descriptors that it needn't have: %s", got["descriptors"])
	}
	if data, _ := os.ReadFile(dir + "-other/secret"); string(data) != "x" {
		t.Error("another pod's file is changed")
	}
}

func TestAWorkersStatusShowsItsBars(t *testing.T) {
	req := request(t, "stubborn")
	req.Dir = volume(t, "volume")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := command(t)
	var pid int
	c.Started = func(p int) error { pid = p; return nil }
	var status, adj, limits string
	_, _ = c.Run(ctx, req, func(e Event) {
		if e.Progress != nil {
			status, adj, limits = procFile(pid, "status"), procFile(pid, "oom_score_adj"), procFile(pid, "limits")
			cancel()
		}
	})
	for _, want := range []string{
		"NoNewPrivs:\t1", "Seccomp:\t2", "CapInh:\t0000000000000000", "CapPrm:\t0000000000000002",
		"CapEff:\t0000000000000002", "CapBnd:\t0000000000000002", "CapAmb:\t0000000000000000",
	} {
		if !strings.Contains(status, want+"\n") {
			t.Errorf("status has no %q:\n%s", want, status)
		}
	}
	if strings.TrimSpace(adj) != "1000" {
		t.Errorf("oom_score_adj is %q", adj)
	}
	if fields := strings.Fields(limits[max(strings.Index(limits, "Max core"), 0):]); len(fields) < 6 || fields[4] != "0" || fields[5] != "0" {
		t.Errorf("the limits allow core dumps:\n%s", limits)
	}
}

func procFile(pid int, name string) string {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), name))
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// parent is a process that runs a worker, and is then killed.
func parent(dir string) int {
	self, err := os.Executable()
	if err != nil {
		return 1
	}
	c := Command{Path: self, Start: start}
	c.Started = func(pid int) error { _, err := fmt.Println(pid); return err }
	_, err = c.Run(context.Background(), Request{Pod: Pod{Name: "stubborn"}, Dir: dir}, func(e Event) {
		if e.Progress != nil {
			fmt.Println("ready")
		}
	})
	fmt.Println(err)
	return 1
}

func TestAWorkerDiesWithItsShim(t *testing.T) {
	dir := volume(t, "volume")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	shim := exec.Command(self, "parent", dir)
	shim.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL}
	out, err := shim.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := shim.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	lines.Scan()
	pid, err := strconv.Atoi(lines.Text())
	if err != nil {
		t.Fatalf("the parent said %q", lines.Text())
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if lines.Scan(); lines.Text() != "ready" {
		t.Fatalf("the parent said %q", lines.Text())
	}
	if err := shim.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = shim.Wait()
	poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	if n, err := unix.Poll(poll, int(time.Minute.Milliseconds())); n != 1 {
		t.Errorf("worker %d outlives its shim: %v", pid, err)
	}
}

func TestEveryCallIsFilteredAsListed(t *testing.T) {
	if auditArch == 0 {
		t.Skip("this architecture has no filter")
	}
	filter := callFilter(42)
	if len(filter) > 4096 {
		t.Fatalf("%d instructions are more than the kernel takes", len(filter))
	}
	for i, in := range filter {
		if in.Code&7 == unix.BPF_JMP && i+1+max(int(in.Jt), int(in.Jf)) >= len(filter) {
			t.Errorf("instruction %d jumps out", i)
		}
	}
}
