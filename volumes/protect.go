// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	specs "github.com/opencontainers/runtime-spec/specs-go"
)

// RootFS is a container's root file system, as it will be.
type RootFS interface {
	// Lookup follows path inside of it, links too, and says what is there by the
	// path without links. The error is fs.ErrNotExist when there's nothing.
	Lookup(path string) (Found, error)
}

// Found is a file or folder of a root file system.
type Found struct {
	Path string // in the container, without links
	Host string // on the node, once the root file system is mounted for runsc
	Dir  bool
}

// WantsProtection lists the container's masked and read-only paths that Protect
// could make mounts of. runsc drops both lists (gvisor
// runsc/specutils/specutils.go:ReadSpecFromFile). Kubernetes' own are below /proc
// and /sys, where gVisor shows its own kernel and nothing of the node's: no mount
// is needed there, and none is possible.
func WantsProtection(spec *specs.Spec) bool {
	if spec.Linux == nil {
		return false
	}
	return slices.ContainsFunc(spec.Linux.MaskedPaths, protectable) || slices.ContainsFunc(spec.Linux.ReadonlyPaths, protectable)
}

func protectable(path string) bool {
	path = filepath.Clean("/" + path)
	return path != "/" && !covers("/proc", path) && !covers("/sys", path)
}

// covers says whether path is folder or below it.
func covers(folder, path string) bool {
	return path == folder || strings.HasPrefix(path, strings.TrimSuffix(folder, "/")+"/")
}

// Protect makes mounts of the masked and read-only paths that lie in the
// container's root file system. As with runc a masked folder is empty, a masked
// file too, both without a way to change that; a path that isn't there is none.
// empty names an empty file on the node. What can't be protected is in notes.
func Protect(spec *specs.Spec, root RootFS, empty string) (notes []string, err error) {
	p := protection{spec: spec, root: root, empty: empty}
	for _, path := range spec.Linux.ReadonlyPaths {
		// What is mounted below it would vanish under the image's folder.
		covered := func(at, path string) bool { return covers(at, path) || covers(path, at) }
		if err := p.add("readonlyPaths", path, covered, readOnly); err != nil {
			return nil, err
		}
	}
	masks := len(p.mounts) // where they begin
	// runsc mounts what is higher up first, whatever the order here: a mask leaves
	// what is mounted below it.
	for _, path := range spec.Linux.MaskedPaths {
		if err := p.add("maskedPaths", path, covers, p.mask); err != nil {
			return nil, err
		}
	}
	spec.Mounts = append(spec.Mounts, p.unmasked(masks)...)
	return p.notes, nil
}

// unmasked leaves out the mounts that would show what a mask hides, at its path or
// below it: runsc mounts them over it. The masks begin at index masks.
func (p *protection) unmasked(masks int) []specs.Mount {
	var out []specs.Mount
	for i, m := range p.mounts {
		hidden := false
		for j, mask := range p.mounts {
			// Of two masks at one path the first stays.
			again := i >= masks && mask.Destination == m.Destination
			hidden = hidden || j >= masks && covers(mask.Destination, m.Destination) && (!again || j < i)
		}
		if !hidden {
			out = append(out, m)
		}
	}
	return out
}

// protection collects the mounts of one container.
type protection struct {
	spec   *specs.Spec
	root   RootFS
	empty  string
	mounts []specs.Mount
	notes  []string
}

// add makes a mount for a path, unless a mount of the container is in the way.
func (p *protection) add(list, path string, inTheWay func(at, path string) bool, how func(Found) specs.Mount) error {
	if !protectable(path) {
		return nil
	}
	found, err := p.root.Lookup(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("container %q: look for %s of linux.%s: %w", nameOf(p.spec), path, list, err)
	}
	if !protectable(found.Path) {
		return nil
	}
	for _, m := range p.spec.Mounts {
		at := filepath.Clean(m.Destination)
		if at == "/" {
			continue
		}
		if inTheWay(at, found.Path) {
			p.notes = append(p.notes, fmt.Sprintf("container %q: %s of linux.%s isn't protected: gVisor can't do that where %s is mounted", nameOf(p.spec), path, list, m.Destination))
			return nil
		}
		if covers(found.Path, at) {
			p.notes = append(p.notes, fmt.Sprintf("container %q: %s of linux.%s hides what the image has there, but not the mount at %s", nameOf(p.spec), path, list, m.Destination))
		}
	}
	p.mounts = append(p.mounts, how(found))
	return nil
}

func readOnly(found Found) specs.Mount {
	return specs.Mount{Destination: found.Path, Type: typeBind, Source: found.Host, Options: []string{"bind", "ro"}}
}

func (p *protection) mask(found Found) specs.Mount {
	if found.Dir {
		return specs.Mount{Destination: found.Path, Type: typeTmpfs, Source: typeTmpfs, Options: []string{"ro", "nosuid", "nodev", "noexec"}}
	}
	return specs.Mount{Destination: found.Path, Type: typeBind, Source: p.empty, Options: []string{"bind", "ro", "nosuid", "nodev", "noexec"}}
}
