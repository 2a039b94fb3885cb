// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// systemFolders hold the node's identity, its programs, other pods' data or
// the control of the node. A pod that could mount one, or a folder above it,
// would have more than a pod. They can't be allowed even on purpose.
var systemFolders = []string{
	"/proc", "/sys", "/dev", "/etc", "/root", "/boot", "/run", "/var/run", "/usr",
	"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix", "/opt/cni",
	"/var/lib/containerd", "/var/lib/docker", "/var/lib/containers", "/var/lib/kubelet",
	"/var/lib/k0s", "/var/lib/rancher", "/var/lib/etcd", "/var/lib/cni", "/var/lib/calico",
	"/var/lib/edged", "/var/lib/kubeedge", "/var/lib/nerdctl", "/var/lib/systemd",
	"/var/log", "/var/spool", "/var/snap", "/snap",
}

// validateHostPath looks at the path as it is written and, where it is on the
// disk now, at where it leads: a link to /etc is as bad as /etc.
func (c *Config) validateHostPath(d *decoder, key string, h HostPath) {
	validateNamespaces(d, key, h.Namespaces)
	if !absolute(d, key+".path", h.Path) {
		return
	}
	forbidden := append(slices.Clone(systemFolders), c.Shim.KubeletRoot, resolved(c.Shim.KubeletRoot))
	if c.Cache.Mode != "off" {
		forbidden = append(forbidden, c.Cache.Path, resolved(c.Cache.Path))
	}
	for _, p := range []string{path.Clean(h.Path), resolved(h.Path)} {
		if where := touches(p, forbidden, true); where != "" {
			d.add(key+".path", "%s is at, above or below %s, which no pod may mount", quote(h.Path), where)
			return
		}
	}
}

// validateNesting refuses a root below a writable one: a pod that writes there
// could put a link in its place, and what leads to a root is trusted.
func (c *Config) validateNesting(d *decoder) {
	for i, inner := range c.HostPaths {
		for _, outer := range c.HostPaths {
			p, above := resolved(inner.Path), resolved(outer.Path)
			if outer.Writable && p != above && within(p, above) {
				d.add(fmt.Sprintf("host_path[%d].path", i), "%s lies below %s, which pods may write, so that they could replace it; keep them apart", quote(inner.Path), quote(outer.Path))
			}
		}
	}
}

// touches names the first folder that p lies at or below, or also above.
func touches(p string, folders []string, above bool) string {
	p = path.Clean(p)
	for _, f := range folders {
		f = path.Clean(f)
		if p == f || f != "/" && within(p, f) || above && within(f, p) {
			return f
		}
	}
	return ""
}

func within(p, folder string) bool {
	return p == folder || folder == "/" || strings.HasPrefix(p, folder+"/")
}

// resolved is where a path leads now; a path that isn't there leads to itself.
func resolved(p string) string {
	real, err := filepath.EvalSymlinks(p)
	if err != nil {
		return path.Clean(p)
	}
	return real
}

func validateNamespaces(d *decoder, key string, names []string) {
	for i, name := range names {
		if name != "*" && !isLabel(name) {
			d.add(fmt.Sprintf("%s.namespaces[%d]", key, i), `%s is neither a namespace nor "*"`, quote(name))
		}
	}
}
