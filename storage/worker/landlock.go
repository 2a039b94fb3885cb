// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"debug/elf"
	"errors"
	"fmt"

	"github.com/landlock-lsm/go-landlock/landlock"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

const (
	readFile = ll.AccessFSReadFile
	readDir  = readFile | ll.AccessFSReadDir
	runFile  = readFile | ll.AccessFSExecute
	// writeVolume is what placing files takes. Devices, sockets and running
	// programs aren't part of it; links and renames between folders are.
	writeVolume = readDir | ll.AccessFSWriteFile | ll.AccessFSTruncate | ll.AccessFSRefer |
		ll.AccessFSMakeReg | ll.AccessFSMakeDir | ll.AccessFSMakeSym |
		ll.AccessFSRemoveFile | ll.AccessFSRemoveDir
)

// readable are the node's files that a worker reads.
var readable = []string{
	// Go's net package: net/conf.go, net/dnsconfig_unix.go, net/hosts.go, net/port_unix.go
	"/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/services",
	// Go's runtime: runtime/os_linux.go
	"/dev/null", "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size",
	// storage tells by it synced data from what a reset may have lost
	"/proc/sys/kernel/random/boot_id",
}

// rootFiles and rootFolders are where Go looks for the node's CAs
// (crypto/x509/root_linux.go), and where the links in them lead.
var (
	rootFiles = []string{
		"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem",
		"/etc/pki/tls/cacert.pem", "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/cert.pem",
	}
	rootFolders = []string{
		"/etc/ssl/certs", "/etc/pki/tls/certs", "/etc/pki/ca-trust/extracted", "/etc/ca-certificates/extracted",
		"/usr/share/ca-certificates", "/usr/local/share/ca-certificates", "/usr/share/pki/trust",
	}
)

// libraries are where a program that isn't static finds what it needs.
var libraries = []string{"/lib", "/lib64", "/usr/lib", "/usr/lib64"}

// hasLandlock says whether the kernel has Landlock with links and renames
// between folders, without which nothing could be placed.
func hasLandlock() bool {
	version, err := ll.LandlockGetABIVersion()
	return err == nil && version >= 2
}

// restrictFiles holds the calling thread to the volume, the program itself and
// what is readable: by Landlock, or by a root of its own.
func (p Place) restrictFiles(self string) (lack string, err error) {
	const missing = "this kernel has no Landlock (Linux 5.19 or later, with landlock in its lsm= list)"
	if hasLandlock() && !p.oldKernel {
		return "", p.landlock(self)
	}
	if err := p.newRoot(self); err != nil {
		if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EINVAL) {
			return fmt.Sprintf("%s, and there can't be a root without the node's files (%v): a worker that is taken over could read and write what belongs to root on the node", missing, err), nil
		}
		return "", err
	}
	return missing + ": the worker has a root of its own instead, from which nothing can be linked to the node's cache", nil
}

// landlock holds the calling thread to files, and to signals and sockets of its
// own.
func (p Place) landlock(self string) error {
	newest := landlock.V11
	config := landlock.Config{HandledAccessFS: newest.HandledAccessFS, Scoped: newest.Scoped}.BestEffort()
	rules := []landlock.Rule{
		landlock.PathAccess(runFile, self),
		landlock.PathAccess(readFile, readable...).IgnoreIfMissing(),
		landlock.PathAccess(readFile, rootFiles...).IgnoreIfMissing(),
		landlock.PathAccess(readDir, rootFolders...).IgnoreIfMissing(),
	}
	if p.Volume != "" {
		rules = append(rules, landlock.PathAccess(writeVolume, p.Volume))
	}
	if linked(self) {
		rules = append(rules,
			landlock.PathAccess(runFile|readDir, libraries...).IgnoreIfMissing(),
			landlock.PathAccess(readFile, "/etc/ld.so.cache").IgnoreIfMissing())
	}
	fd, flags, err := config.NewRulesetFD(rules...)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return ll.LandlockRestrictSelf(fd, flags)
}

// linked says whether a program needs the node's libraries to run: releases
// don't, a build of one's own may.
func linked(program string) bool {
	f, err := elf.Open(program)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	for _, part := range f.Progs {
		if part.Type == elf.PT_INTERP {
			return true
		}
	}
	return false
}
