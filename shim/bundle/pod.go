// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/containerd/errdefs"
	specs "github.com/opencontainers/runtime-spec/specs-go"
)

// keys names the annotations in which one CRI implementation says who a pod is.
// Each is read by its own keys only: what another would have written may have
// come from the pod's author instead.
type keys struct {
	kind, sandboxID, namespace, name, uid, container string
}

// containerd's: containerd/containerd internal/cri/annotations/annotations.go.
var containerd = keys{
	kind:      "io.kubernetes.cri.container-type",
	sandboxID: "io.kubernetes.cri.sandbox-id",
	namespace: "io.kubernetes.cri.sandbox-namespace",
	name:      "io.kubernetes.cri.sandbox-name",
	uid:       "io.kubernetes.cri.sandbox-uid", // 1.7 and later
	container: "io.kubernetes.cri.container-name",
}

// criO's: cri-o/cri-o pkg/annotations, and the labels of kubelet, which it
// copies into the spec. gVisor knows the first two of them: gvisor
// runsc/specutils/cri.go.
var criO = keys{
	kind:      "io.kubernetes.cri-o.ContainerType",
	sandboxID: "io.kubernetes.cri-o.SandboxID",
	namespace: "io.kubernetes.pod.namespace",
	name:      "io.kubernetes.pod.name",
	uid:       "io.kubernetes.pod.uid",
	container: "io.kubernetes.container.name",
}

// Where the logs are: containerd names the pod's folder, CRI-O a file below it.
const (
	containerdLogDirectory = "io.kubernetes.cri.sandbox-log-directory"
	criOLogPath            = "io.kubernetes.cri-o.LogPath"
)

// Kind is what a bundle is in its pod.
type Kind int

const (
	// Lone is a container without a pod, as `ctr run` makes it.
	Lone Kind = iota
	// Sandbox is the pod's first container, which holds its namespaces.
	Sandbox
	// Container is one of the pod's own containers.
	Container
)

// String names the kind for people.
func (k Kind) String() string {
	switch k {
	case Sandbox:
		return "sandbox"
	case Container:
		return "container"
	}
	return "lone container"
}

// Pod is what the CRI wrote about the pod of a bundle: facts, no wishes of the
// pod's author. Fields that nobody wrote are empty.
type Pod struct {
	Kind      Kind
	SandboxID string
	// Namespace, Name and UID are the pod's in Kubernetes. UID is a plain name
	// of a folder, whoever wrote it.
	Namespace, Name, UID string
	// ContainerName is the container's name in the pod.
	ContainerName string
	// LogDirectory is the folder of the pod's logs.
	LogDirectory string
	// NetNS is the path of the network namespace. HasNetNS says whether the
	// spec has an entry for one: a pod on the node's network has none, and an
	// entry without a path asks the runtime for a new one.
	NetNS    string
	HasNetNS bool
	// ResolvConf is the file on the node that is mounted at /etc/resolv.conf.
	ResolvConf string
	// CgroupsPath is as the spec has it: a path, or slice:prefix:name.
	CgroupsPath string
}

// SandboxID returns the sandbox that a container with these annotations
// belongs to; a sandbox belongs to itself.
func SandboxID(annotations map[string]string) (string, bool) {
	for _, k := range []keys{containerd, criO} { // in gVisor's order
		if id := annotations[k.sandboxID]; id != "" {
			return id, true
		}
	}
	return "", false
}

// CheckFacts refuses annotations in which two CRI implementations say what the
// container is. One of them is the pod's author: CRI-O hands on whatever a pod
// is annotated with, and runsc, which asks for containerd's keys first, would
// put the container into the sandbox of another pod.
func CheckFacts(annotations map[string]string) error {
	has := func(keys ...string) string {
		for _, k := range keys {
			if _, ok := annotations[k]; ok {
				return k
			}
		}
		return ""
	}
	one := has(containerd.kind, containerd.sandboxID, containerd.uid, containerdLogDirectory)
	other := has(criO.kind, criO.sandboxID)
	if one != "" && other != "" {
		return fmt.Errorf("annotations %s and %s are those of two container runtimes: remove the one that the pod sets: %w", one, other, errdefs.ErrInvalidArgument)
	}
	return nil
}

// Pod tells which pod the bundle belongs to.
func (b *Bundle) Pod() (Pod, error) {
	a := b.Spec.Annotations
	if err := CheckFacts(a); err != nil {
		return Pod{}, err
	}
	kind, k, err := kindOf(a)
	if err != nil {
		return Pod{}, err
	}
	p := Pod{
		Kind:          kind,
		Namespace:     a[k.namespace],
		Name:          a[k.name],
		ContainerName: a[k.container],
		LogDirectory:  logDirectory(a, kind),
		ResolvConf:    sourceOf(b.Spec.Mounts, "/etc/resolv.conf"),
	}
	p.SandboxID, _ = SandboxID(a)
	if kind == Container && p.SandboxID == "" {
		return Pod{}, fmt.Errorf("annotation %s is missing, the container names no sandbox: %w", k.sandboxID, errdefs.ErrInvalidArgument)
	}
	if p.UID, err = uidOf(p, a[k.uid]); err != nil {
		return Pod{}, err
	}
	if linux := b.Spec.Linux; linux != nil {
		p.CgroupsPath = linux.CgroupsPath
		for _, ns := range linux.Namespaces {
			if ns.Type == specs.NetworkNamespace {
				p.HasNetNS, p.NetNS = true, ns.Path
			}
		}
	}
	return p, nil
}

// kindOf finds out what the container is, and by whose keys. Like gVisor it
// asks containerd's first.
func kindOf(annotations map[string]string) (Kind, keys, error) {
	for _, k := range []keys{containerd, criO} {
		switch value, ok := annotations[k.kind]; {
		case !ok:
		case value == "sandbox":
			return Sandbox, k, nil
		case value == "container":
			return Container, k, nil
		default:
			return Lone, k, fmt.Errorf("annotation %s is %q, neither sandbox nor container: %w", k.kind, value, errdefs.ErrInvalidArgument)
		}
	}
	return Lone, containerd, nil
}

// uidOf prefers what the CRI says; an older one says it in the name of the log
// folder only. Where both say it in full they must agree: the uid decides whose
// volumes are written.
func uidOf(p Pod, said string) (string, error) {
	logged, full := uidInLogDirectory(p)
	switch {
	case said == "":
		said = logged
	case full && said != logged:
		return "", fmt.Errorf("the pod's uid is %q, but its log folder is %s: %w", said, p.LogDirectory, errdefs.ErrInvalidArgument)
	}
	if said != "" && !plainName(said) {
		return "", fmt.Errorf("the pod's uid %q can't be the name of a folder: %w", said, errdefs.ErrInvalidArgument)
	}
	return said, nil
}

// uidInLogDirectory reads NAMESPACE_NAME_UID, or UID alone in an old layout, as
// gVisor does: gvisor pkg/shim/v1/utils/volumes.go:podUID. It is full if
// namespace and name are this pod's.
func uidInLogDirectory(p Pod) (uid string, full bool) {
	if p.LogDirectory == "" {
		return "", false
	}
	switch parts := strings.Split(filepath.Base(p.LogDirectory), "_"); len(parts) {
	case 1:
		return parts[0], false
	case 3:
		return parts[2], parts[0] == p.Namespace && parts[1] == p.Name
	}
	return "", false
}

// logDirectory finds the folder of the pod's logs. CRI-O names a file in it for
// a sandbox, and one a level deeper for a container.
func logDirectory(annotations map[string]string, kind Kind) string {
	if dir := annotations[containerdLogDirectory]; dir != "" {
		return dir
	}
	file := annotations[criOLogPath]
	switch {
	case file == "":
		return ""
	case kind == Container:
		return filepath.Dir(filepath.Dir(file))
	}
	return filepath.Dir(file)
}

// plainName says whether s is safe as one component of a path and has no
// meaning in a pattern. Kubernetes' own uids are hex digits and dashes.
func plainName(s string) bool {
	if s == "" || len(s) > 255 || strings.Trim(s, ".") == "" {
		return false
	}
	for _, r := range s {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
		case strings.ContainsRune("-._:", r):
		default:
			return false
		}
	}
	return true
}

func sourceOf(mounts []specs.Mount, destination string) string {
	for _, m := range mounts {
		if filepath.Clean(m.Destination) == destination {
			return m.Source
		}
	}
	return ""
}
