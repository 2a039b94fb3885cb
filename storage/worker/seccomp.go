// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// refused are calls that a worker has no use for and that an intruder has:
// into other processes, around the file system's rules, into rarely walked
// corners of the kernel.
var refused = append([]uint32{
	// other processes
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_KCMP,
	unix.SYS_PIDFD_GETFD, unix.SYS_PIDFD_SEND_SIGNAL, unix.SYS_TKILL, unix.SYS_RT_SIGQUEUEINFO, unix.SYS_RT_TGSIGQUEUEINFO,
	// other views of the file system, and programs that have no path in it
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_UNSHARE, unix.SYS_SETNS,
	unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE, unix.SYS_FSOPEN, unix.SYS_FSPICK, unix.SYS_FSMOUNT, unix.SYS_MOUNT_SETATTR,
	unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_MEMFD_CREATE, unix.SYS_MEMFD_SECRET,
	// the kernel itself
	unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
	unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_KEXEC_LOAD, unix.SYS_REBOOT,
	// io_uring does what is refused here past this filter
	unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
}, refusedHere...)

// filterCalls refuses for the calling thread, and all it will become, what
// `refused` lists, and besides: sockets but of the Internet (those of the node's
// daemons are files that uid 0 may open), signals to others, processes of its
// own, and to change the parent-death signal.
func filterCalls(pid int) (lack string, err error) {
	if auditArch == 0 {
		return "system calls aren't filtered on this architecture", nil
	}
	filter := callFilter(uint32(pid))
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&program)))
	switch {
	case errno == 0:
		return "", nil
	case errors.Is(errno, unix.ENOSYS), errors.Is(errno, unix.EINVAL):
		return fmt.Sprintf("this kernel has no seccomp filters, so that system calls aren't filtered: %v", errno), nil
	}
	return "", errno
}

// Offsets in struct seccomp_data, linux/seccomp.h. Arguments are 64 bits wide;
// those looked at have their meaning in the lower half.
const (
	atCall = 0
	atArch = 4
	atArg0 = 16 // on little-endian machines, which all ours are
)

const (
	x32Bit  = 0x40000000 // in numbers of amd64's other calling convention
	allow   = 0x7fff0000 // SECCOMP_RET_ALLOW
	noCall  = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
	refuse  = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	noSuch  = unix.SECCOMP_RET_ERRNO | uint32(unix.EAFNOSUPPORT)
	threads = unix.CLONE_THREAD
)

func callFilter(pid uint32) []unix.SockFilter {
	equal, above, bits := uint16(unix.BPF_JEQ), uint16(unix.BPF_JGE), uint16(unix.BPF_JSET)
	f := []unix.SockFilter{load(atArch)}
	f = append(f, when(equal, auditArch, nil, verdict(noCall))...)
	f = append(f, load(atCall))
	f = append(f, when(above, x32Bit, verdict(noCall), nil)...)
	for _, call := range refused {
		f = append(f, when(equal, call, verdict(refuse), nil)...)
	}
	// Without it everybody falls back to clone, whose flags can be read.
	f = append(f, when(equal, unix.SYS_CLONE3, verdict(noCall), nil)...)
	argument := func(call uint32, test uint16, value, yes, no uint32) {
		body := append([]unix.SockFilter{load(atArg0)}, when(test, value, verdict(yes), verdict(no))...)
		f = append(f, when(equal, call, body, nil)...)
	}
	argument(unix.SYS_CLONE, bits, threads, allow, refuse)
	argument(unix.SYS_KILL, equal, pid, allow, refuse)
	argument(unix.SYS_TGKILL, equal, pid, allow, refuse)
	argument(unix.SYS_PRCTL, equal, unix.PR_SET_PDEATHSIG, refuse, allow)
	family := []unix.SockFilter{load(atArg0)}
	family = append(family, when(equal, unix.AF_INET, verdict(allow), nil)...)
	family = append(family, when(equal, unix.AF_INET6, verdict(allow), nil)...)
	family = append(family, verdict(noSuch)...)
	f = append(f, when(equal, unix.SYS_SOCKET, family, nil)...)
	return append(f, verdict(allow)...)
}

func load(offset uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
}

func verdict(v uint32) []unix.SockFilter {
	return []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: v}}
}

// when runs yes if what was loaded passes the test, else no. One of them may be
// nil: the program then goes on.
func when(test uint16, value uint32, yes, no []unix.SockFilter) []unix.SockFilter {
	jump := unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_K | test, K: value, Jf: uint8(len(yes))}
	if yes == nil {
		jump.Jt, jump.Jf = uint8(len(no)), 0
	}
	return append(append([]unix.SockFilter{jump}, yes...), no...)
}
