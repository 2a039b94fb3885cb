// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/containerd/errdefs"
)

// HostRoot is a folder of the node that its operator lets pods mount: one
// [[host_path]] of the node's configuration.
type HostRoot struct {
	Path       string
	Writable   bool
	Namespaces []string // "*" is everybody, none is nobody
}

// admits says whether the root lets a namespace mount a clean path.
func (r HostRoot) admits(source, namespace string) bool {
	return within(source, path.Clean(r.Path)) &&
		(slices.Contains(r.Namespaces, "*") || slices.Contains(r.Namespaces, namespace))
}

// Root picks the root by which a namespace may mount h: the deepest, and of
// two at one place the writable one. It compares names only; whoever opens the
// source opens it beneath that root.
func (h HostPath) Root(allowed []HostRoot, namespace string) (root HostRoot, ok bool) {
	for _, r := range allowed {
		if !r.admits(h.Source, namespace) {
			continue
		}
		deeper := len(path.Clean(r.Path)) - len(path.Clean(root.Path))
		if !ok || deeper > 0 || deeper == 0 && r.Writable {
			root, ok = r, true
		}
	}
	return root, ok
}

// CheckHostPaths refuses host paths that the node doesn't allow to the pod's
// namespace. Its error is errdefs.ErrPermissionDenied.
func (p *Plan) CheckHostPaths(allowed []HostRoot, namespace string) error {
	var found findings
	for _, h := range p.HostPaths {
		if _, ok := h.Root(allowed, namespace); ok {
			continue
		}
		for _, m := range h.Mounts {
			found.add(mountKey(m, "url"), "its operator can allow it by a [[host_path]] in the node's config.toml",
				"this node doesn't let the namespace %q mount its folder %s", clip(namespace, 63), strconv.Quote(clip(h.Source, maxShown)))
		}
	}
	return found.err(podAnnotations, errdefs.ErrPermissionDenied)
}

// otherRuns are what a volume's name can't have.
var otherRuns = regexp.MustCompile(`[^a-z0-9]+`)

// nameVolumes names each host path as Sedna does, and adds a part of a hash
// where that name is cut or taken.
func nameVolumes(hostPaths []HostPath) {
	taken := map[string]bool{}
	for i := range hostPaths {
		h := &hostPaths[i]
		name := strings.Trim(otherRuns.ReplaceAllString(strings.ToLower("sedna-"+h.Source), "-"), "-")
		if len(name) > 63 || taken[name] {
			sum := sha256.Sum256([]byte(h.Source))
			suffix := "-" + hex.EncodeToString(sum[:6])
			name = strings.TrimRight(name[:min(len(name), 63-len(suffix))], "-") + suffix
		}
		taken[name] = true
		h.Volume = name
	}
}
