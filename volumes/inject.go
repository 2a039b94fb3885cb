// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sedna-io/containerd-shim-sedna/storage/plan"
)

// Injection is what the containers of a pod get.
type Injection struct {
	// Volume is the folder of the emptyDir that received downloads, "" if
	// there was nothing to download.
	Volume string
	// MountPath is where Volume is mounted in containers that don't mount it.
	MountPath string
	// Writable leaves mounts of Volume as they are; otherwise all of them
	// become read-only, in every container.
	Writable bool
	// Containers names those that get mounts and variables; nil is all.
	Containers []string
	// Skip names those that never do.
	Skip []string
	// Variables are set where the container doesn't define them itself.
	Variables []plan.Variable
	// HostMounts are bind mounts of folders of the node, checked and complete.
	HostMounts []specs.Mount
}

// Inject puts the downloads' mount, the host paths and the variables into the
// spec of the container called name, and returns lines for the log. On an error
// the spec may be half changed and must not be saved. A second run changes
// nothing.
func Inject(spec *specs.Spec, name string, in Injection) (notes []string, err error) {
	downloads, err := in.downloadMounts(spec)
	if err != nil {
		return nil, fmt.Errorf("container %q: %w", name, err)
	}
	if !in.Writable {
		for _, m := range downloads {
			makeReadOnly(&spec.Mounts[m.index])
		}
	}
	if !in.wants(name) {
		return nil, nil
	}
	paths, uncovered, err := in.resolve(downloads)
	if err != nil {
		return nil, fmt.Errorf("container %q: %w", name, err)
	}
	add := slices.Clone(in.HostMounts)
	if in.Volume != "" && (len(downloads) == 0 || uncovered) {
		add = append(add, in.mount())
	}
	if err := addMounts(spec, add); err != nil {
		return nil, fmt.Errorf("container %q: %w", name, err)
	}
	return in.setVariables(spec, name, paths), nil
}

// wants says whether the container gets mounts and variables.
func (in Injection) wants(name string) bool {
	return !slices.Contains(in.Skip, name) && (in.Containers == nil || slices.Contains(in.Containers, name))
}

// mount is the mount of the downloads for a container that has none.
func (in Injection) mount() specs.Mount {
	access := "ro"
	if in.Writable {
		access = "rw"
	}
	return specs.Mount{
		Destination: in.MountPath, Type: typeBind, Source: in.Volume,
		Options: []string{"rbind", "rprivate", "nosuid", "nodev", access},
	}
}

// makeReadOnly makes ro the last word: runsc and its gofer read the options in
// order.
func makeReadOnly(m *specs.Mount) {
	if i := slices.Index(m.Options, "ro"); i >= 0 && !slices.Contains(m.Options[i:], "rw") && !slices.Contains(m.Options, "rw") {
		return
	}
	m.Options = slices.DeleteFunc(slices.Clone(m.Options), func(o string) bool { return o == "rw" || o == "ro" })
	m.Options = append(m.Options, "ro")
}

// addMounts appends mounts, parents first: the gofer makes them in the order of
// the spec, gvisor runsc/cmd/sandboxsetup/gofer_mount.go:SetupMounts.
func addMounts(spec *specs.Spec, add []specs.Mount) error {
	slices.SortStableFunc(add, func(a, b specs.Mount) int {
		return cmp.Or(
			cmp.Compare(strings.Count(filepath.Clean(a.Destination), "/"), strings.Count(filepath.Clean(b.Destination), "/")),
			cmp.Compare(a.Destination, b.Destination))
	})
	before := slices.Clone(spec.Mounts)
	for _, m := range add {
		there, err := clash(before, add, m)
		if err != nil {
			return err
		}
		if !there {
			spec.Mounts = append(spec.Mounts, m)
		}
	}
	return nil
}

// clash looks whether a mount that the container has stands in the way of m.
// there says that m itself is in already.
func clash(mounts, ours []specs.Mount, m specs.Mount) (there bool, err error) {
	for _, other := range mounts {
		switch {
		case sameMount(other, m):
			there = true
		case !within(m.Destination, other.Destination) && !within(other.Destination, m.Destination):
		case slices.ContainsFunc(ours, func(o specs.Mount) bool { return sameMount(o, other) }):
		default:
			return false, fmt.Errorf("its own mount of %s at %s is in the way of the pod's at %s; move one of them (storage.sedna.io/mount-path is for the downloads): %w",
				other.Source, other.Destination, m.Destination, errdefs.ErrInvalidArgument)
		}
	}
	return there, nil
}

func sameMount(a, b specs.Mount) bool {
	return a.Source == b.Source && filepath.Clean(a.Destination) == filepath.Clean(b.Destination)
}

// within says whether path is dir or below it, by the words alone.
func within(path, dir string) bool {
	path, dir = filepath.Clean(path), filepath.Clean(dir)
	return path == dir || dir == "/" || strings.HasPrefix(path, dir+"/")
}
