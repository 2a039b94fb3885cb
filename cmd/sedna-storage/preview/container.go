// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/sedna-io/containerd-shim-sedna/cmd/sedna-storage/manifest"
	"github.com/sedna-io/containerd-shim-sedna/storage/plan"
)

// container says what one container gets. The rules are those of package
// volumes, applied to what the manifest says instead of an OCI spec.
func (c *checker) container(p *plan.Plan, k manifest.Container) Container {
	out := Container{Name: k.Name, Kind: k.Kind}
	var own []manifest.Mount
	for _, m := range k.Mounts {
		if m.Volume == p.Volume && len(p.Downloads) > 0 {
			own = append(own, m)
			out.Mounts = append(out.Mounts, Mount{Source: volumeSource(p.Volume, m.SubPath), Destination: m.Path, ReadOnly: !p.Writable, Own: true})
		}
	}
	if !c.wants(p, k.Name) {
		return out
	}
	uncovered := false
	for _, v := range p.Variables {
		if k.Env[v.Name] {
			out.Variables = append(out.Variables, Variable{Name: v.Name, Own: true})
			continue
		}
		value, all := place(v, own, p.MountPath)
		uncovered = uncovered || !all
		out.Variables = append(out.Variables, Variable{Name: v.Name, Value: value})
	}
	for _, h := range p.HostPaths {
		root, _ := h.Root(roots(c.node.Config), c.preview.Namespace)
		out.Mounts = append(out.Mounts, Mount{Source: h.Source, Destination: h.Destination, ReadOnly: !h.Writable || c.node.Known && !root.Writable})
	}
	if len(p.Downloads) > 0 && (len(own) == 0 || uncovered) {
		out.Mounts = append(out.Mounts, Mount{Source: volumeSource(p.Volume, ""), Destination: p.MountPath, ReadOnly: !p.Writable})
	}
	c.checkClashes(k, out)
	return out
}

func (c *checker) wants(p *plan.Plan, name string) bool {
	return !slices.Contains(c.node.Config.Shim.SkipContainers, name) && (p.Containers == nil || slices.Contains(p.Containers, name))
}

func volumeSource(name, subPath string) string {
	source := "volume " + strconv.Quote(name)
	if subPath != "" {
		source += " subPath " + strconv.Quote(subPath)
	}
	return source
}

// place gives a variable's value where each download is named by the first of
// the container's own mounts that shows it. all is false where one of them is
// seen through none.
func place(v plan.Variable, own []manifest.Mount, mountPath string) (value string, all bool) {
	all = true
	parts := make([]string, len(v.Values))
	for i, part := range v.Values {
		if part.Download == "" {
			parts[i] = part.String()
			continue
		}
		where, ok := shownBy(own, part.Download)
		if !ok {
			where, all = path.Join(mountPath, part.Download), false
		}
		parts[i] = where
	}
	return strings.Join(parts, ";"), all
}

func shownBy(own []manifest.Mount, download string) (string, bool) {
	for _, m := range own {
		sub := strings.Trim(path.Clean("/"+m.SubPath), "/")
		switch {
		case m.Expr: // known only to the kubelet
		case sub == "":
			return path.Join(m.Path, download), true
		case download == sub || strings.HasPrefix(download, sub+"/"):
			return path.Join(m.Path, strings.TrimPrefix(download, sub)), true
		}
	}
	return "", false
}

// checkClashes finds mounts of the container that ours would hide or be hidden
// by: the shim refuses such a container.
func (c *checker) checkClashes(k manifest.Container, out Container) {
	for _, ours := range out.Mounts {
		if ours.Own {
			continue
		}
		for _, m := range k.Mounts {
			if !within(m.Path, ours.Destination) && !within(ours.Destination, m.Path) {
				continue
			}
			c.mistake(m.Line, plan.Prefix+"mount-path",
				fmt.Sprintf("the container %q mounts the volume %q at %s, where %s would be mounted at %s", k.Name, m.Volume, m.Path, ours.Source, ours.Destination),
				"mount them apart from each other")
		}
	}
}

func within(p, folder string) bool {
	p, folder = path.Clean(p), path.Clean(folder)
	return p == folder || folder == "/" || strings.HasPrefix(p, folder+"/")
}
