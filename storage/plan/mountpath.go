// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"path"
	"slices"
	"strings"
)

// HostPathRoot is where folders of the node appear in containers.
const HostPathRoot = "/hostpath"

// Defaults of the pod's annotations.
const (
	DefaultVolume    = "sedna-storage-initializer"
	DefaultMountPath = "/downloads"
)

// reserved are folders that hold a container's programs, its identity or the
// kernel's files: a download may be mounted neither over nor under them, for
// it is mounted into sidecars too that somebody else injected. An author who
// wants it there in a container of his own mounts the volume there himself.
var reserved = []string{
	"/proc", "/sys", "/dev", "/etc", "/usr", "/bin", "/sbin", "/boot", "/root",
	"/nix", "/run", "/var/run", HostPathRoot,
}

// codeFolders are names of folders that programs load code from, anywhere.
var codeFolders = []string{"bin", "sbin", "site-packages", "dist-packages", "node_modules"}

// checkMountPath says why a download volume can't be mounted at a path of the
// container.
func checkMountPath(p string) *fault {
	if p == "" || p[0] != '/' {
		return faultf("it begins with /", "%s is no absolute path", show(p))
	}
	for segment := range strings.SplitSeq(p, "/") {
		if segment == ".." {
			return faultf("", "%s has .. in it", show(p))
		}
		if err := checkSegment(segment); err != nil {
			return faultf("", "%s %s", show(p), err.problem)
		}
	}
	if err := checkLength(p); err != nil {
		return err
	}
	if strings.ContainsAny(p, ";:,") {
		return faultf("", "%s has one of ; : , in it", show(p))
	}
	clean := path.Clean(p)
	touches := func(r string) bool { return within(clean, r) || within(r, clean) }
	if i := slices.IndexFunc(reserved, touches); i >= 0 {
		return faultf("choose a folder of its own, like "+DefaultMountPath, "%s is at, above or below %s", show(clean), reserved[i])
	}
	for segment := range strings.SplitSeq(clean[1:], "/") {
		if isCodeFolder(segment) {
			return faultf("choose a folder of its own, like "+DefaultMountPath, "%s has %q in it, from where programs load code or settings", show(clean), segment)
		}
	}
	return nil
}

func isCodeFolder(name string) bool {
	return strings.HasPrefix(name, ".") || strings.HasPrefix(name, "lib") || slices.Contains(codeFolders, name)
}

// within says whether a clean absolute path is a folder or lies below it.
func within(p, folder string) bool {
	return p == folder || folder == "/" || strings.HasPrefix(p, folder+"/")
}
