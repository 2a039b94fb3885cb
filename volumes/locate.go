// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/containerd/errdefs"
	specs "github.com/opencontainers/runtime-spec/specs-go"
)

// Node is what the node's config says about volumes and hints.
type Node struct {
	// KubeletRoot is kubelet's --root-dir; "" is DefaultKubeletRoot.
	KubeletRoot string
	// AutoHint hints every emptyDir: empty_dir = "auto".
	AutoHint bool
}

// DefaultKubeletRoot is kubelet's own default for --root-dir.
const DefaultKubeletRoot = "/var/lib/kubelet"

// otherRoots are where distributions move kubelet's root to, tried last.
var otherRoots = []string{
	DefaultKubeletRoot,
	"/var/lib/k0s/kubelet",
	"/var/snap/microk8s/common/var/lib/kubelet",
	"/var/lib/edged", // KubeEdge's edged, before it embedded kubelet
}

// mountInfo lists the mounts that the shim sees; a test has its own.
var mountInfo = "/proc/self/mountinfo"

// PodVolumes knows where kubelet keeps the volumes of one pod.
type PodVolumes struct {
	uid     string
	podsDir string
	// searched are the pods folders that were looked at, for errors.
	searched []string
	found    bool
}

// Locate finds kubelet's folder for the pod with this uid: below the configured
// root, or where the sources of the spec's mounts or the node's mounts show
// one. The path is free of symbolic links; the sources of a container's mounts
// may not be, since containerd resolves only their last part: containerd
// pkg/os/os_unix.go:ResolveSymbolicLink. Finding nothing is no error here: many
// a pod has no volumes, and those that need one are told by EmptyDir and Secret.
func Locate(spec *specs.Spec, uid string, n Node) (*PodVolumes, error) {
	if uid != "" && !plainName(uid) {
		return nil, fmt.Errorf("the pod's uid %q can't be the name of a folder: %w", uid, errdefs.ErrInvalidArgument)
	}
	configured := n.KubeletRoot
	if configured == "" {
		configured = DefaultKubeletRoot
	}
	if !filepath.IsAbs(configured) {
		return nil, fmt.Errorf("kubelet_root %q is not an absolute path: %w", configured, errdefs.ErrInvalidArgument)
	}
	v := &PodVolumes{uid: uid, podsDir: resolved(filepath.Join(configured, "pods"))}
	if uid == "" {
		return v, nil
	}
	for _, candidates := range []func() []string{
		func() []string { return []string{filepath.Join(configured, "pods")} },
		func() []string { return podsDirsOfMounts(spec, uid) },
		func() []string { return podsDirsOfNode(uid) },
		knownPodsDirs,
	} {
		for _, dir := range candidates() {
			if v.try(dir) {
				return v, nil
			}
		}
	}
	return v, nil
}

// try takes the pods folder dir if the pod is in it.
func (v *PodVolumes) try(dir string) bool {
	dir = resolved(dir)
	v.searched = append(v.searched, dir)
	info, err := os.Lstat(filepath.Join(dir, v.uid))
	if err != nil || !info.IsDir() {
		return false
	}
	v.podsDir, v.found = dir, true
	return true
}

// PodsDir is the folder that holds a folder for each pod. gVisor's own rewrite
// must look there too: gvisor pkg/shim/v1/utils/volumes.go:kubeletPodsDir.
func (v *PodVolumes) PodsDir() string { return v.podsDir }

// resolved is path without symbolic links, or path if it doesn't exist.
func resolved(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return filepath.Clean(path)
}

// podsDirsOfMounts reads pods folders off the sources of the mounts. Only a
// container's spec has such mounts.
func podsDirsOfMounts(spec *specs.Spec, uid string) []string {
	var out []string
	for _, m := range spec.Mounts {
		if dir := podsDirOf(m.Source, uid); dir != "" {
			out = append(out, dir)
		}
	}
	return out
}

// podsDirsOfNode reads them off the node's mounts: memory-backed emptyDirs,
// secrets and service account tokens each are a tmpfs mount below the pod's
// folder, so a sandbox's pod mostly has one before any container exists.
func podsDirsOfNode(uid string) []string {
	f, err := os.Open(mountInfo)
	if err != nil {
		return nil // a guess fewer
	}
	defer f.Close()
	return podsDirsOfMountInfo(f, uid)
}

// podsDirsOfMountInfo reads the fifth field of each line, proc(5).
func podsDirsOfMountInfo(r io.Reader, uid string) []string {
	var out []string
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 5 {
			continue
		}
		if dir := podsDirOf(unescape.Replace(fields[4]), uid); dir != "" {
			out = append(out, dir)
		}
	}
	return out
}

// unescape undoes what the kernel does to a mount point's name.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

func knownPodsDirs() []string {
	out := make([]string, 0, len(otherRoots))
	for _, root := range otherRoots {
		out = append(out, filepath.Join(root, "pods"))
	}
	return out
}

// podsDirOf returns X of a path X/UID/volumes/... or X/UID/volume-subpaths/...
// where X ends in pods, else "".
func podsDirOf(path, uid string) string {
	for _, below := range []string{"volumes", "volume-subpaths"} {
		dir, _, ok := strings.Cut(path, "/pods/"+uid+"/"+below+"/")
		if ok && filepath.IsAbs(dir) {
			return filepath.Join(dir, "pods")
		}
	}
	return ""
}

// plainName says whether s is one component of a path without meaning in a
// pattern, as the names of pods' volumes and Kubernetes' uids are.
func plainName(s string) bool {
	if s == "" || len(s) > 255 || strings.Trim(s, ".") == "" {
		return false
	}
	for _, r := range s {
		if r < ' ' || r == 0x7f || strings.ContainsRune(`/*?[]\`, r) {
			return false
		}
	}
	return true
}
