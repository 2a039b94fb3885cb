// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

// Place is where a worker does its work: the pod's network, seen with the
// pod's own names, and one folder of the node.
type Place struct {
	NetNS      string // path of a network namespace, "" to stay
	ResolvConf string // file that stands in for /etc/resolv.conf, "" for the node's
	Volume     string // folder that is written, "" for none

	oldKernel bool // without Landlock, for a test
}

// hosts is what /etc/hosts says inside: kubelet writes the pod's own only when
// it creates the containers, and the node's names are not the pod's.
const hosts = "127.0.0.1\tlocalhost\n::1\tlocalhost\n"

// Enter moves the process into p, gives up every privilege that the work there
// doesn't need, and starts its program anew with args, so that every thread of
// the new one is held. It returns only on error, or at once with nil when p is
// empty, as it is in the program started anew. Call it before reading stdin,
// which the new program inherits.
//
// What the kernel can't do for us goes to tell, a sentence each, and is no
// error.
func Enter(p Place, args []string, tell func(lack string)) error {
	if p == (Place{}) {
		return nil
	}
	// Namespaces and privileges belong to a thread. This one is never given
	// back: exec makes it the only thread of the new program.
	runtime.LockOSThread()
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the running program: %w", err)
	}
	if p.NetNS != "" || p.ResolvConf != "" {
		if err := p.enterMounts(); err != nil {
			return err
		}
	}
	if err := p.enterNetwork(); err != nil {
		return err
	}
	lacks, err := p.confine(self)
	if err != nil {
		return err
	}
	for _, lack := range lacks {
		tell(lack)
	}
	return fmt.Errorf("start the worker anew: %w", unix.Exec(self, args, []string{}))
}

// enterMounts makes a private mount namespace in which the pod's resolv.conf
// and our hosts stand where Go's resolver looks. The node's unmounts still
// arrive, or a worker would keep volumes busy.
func (p Place) enterMounts() error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("make a mount namespace: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if p.ResolvConf != "" {
		if err := unix.Mount(p.ResolvConf, "/etc/resolv.conf", "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("mount the pod's resolv.conf %s over /etc/resolv.conf: %w", p.ResolvConf, err)
		}
	}
	if p.NetNS == "" {
		return nil
	}
	if err := mountText("/etc/hosts", hosts); err != nil {
		return fmt.Errorf("mount a hosts file: %w", err)
	}
	return nil
}

// mountText mounts a file that holds text at target, from a tmpfs that nothing
// else can reach. The tmpfs has a place for a moment: a file of one that has
// none can be mounted from Linux 6.15 on.
func mountText(target, text string) error {
	if err := mountTmpfs(); err != nil {
		return err
	}
	defer func() { _ = unix.Unmount(scratch, unix.MNT_DETACH) }()
	file := filepath.Join(scratch, filepath.Base(target))
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		return err
	}
	return unix.Mount(file, target, "", unix.MS_BIND, "")
}

func (p Place) enterNetwork() error {
	if p.NetNS == "" {
		return nil
	}
	fd, err := unix.Open(p.NetNS, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open the pod's network namespace %s: %w", p.NetNS, err)
	}
	defer unix.Close(fd)
	if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter the pod's network namespace %s: %w", p.NetNS, err)
	}
	return nil
}
