// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Volume is a pod's volume. Like kubelet, the node makes those that are given
// before the sandbox; a volume that no container mounts isn't to be given.
type Volume struct {
	Name string
	Kind Kind
	// Memory makes an emptyDir a tmpfs.
	Memory bool
	// SizeLimit of a Memory volume, as a tmpfs option: "64m".
	SizeLimit string
	// Files of a Secret or Projected volume; of an emptyDir, what an earlier
	// life of the pod left there.
	Files map[string]string
	// FSGroup is the pod's fsGroup: group and setgid of the volume's root.
	FSGroup int
}

// Kind is the folder that kubelet names after the volume's plugin, kubernetes
// pkg/kubelet/kubelet_getters.go:getPodVolumeDir and utilstrings.EscapeQualifiedName.
type Kind string

// The kinds that tests need.
const (
	EmptyDir  Kind = "kubernetes.io~empty-dir" // the zero value means this too
	Secret    Kind = "kubernetes.io~secret"
	Projected Kind = "kubernetes.io~projected"
)

// dir is the volume's folder below that of its pod.
func (v Volume) dir(pod string) string {
	kind := v.Kind
	if kind == "" {
		kind = EmptyDir
	}
	return filepath.Join(pod, "volumes", string(kind), v.Name)
}

// mount makes the volume on the node.
func (v Volume) mount(pod string) error {
	dir := v.dir(pod)
	if err := os.MkdirAll(filepath.Dir(dir), 0o750); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o777); err != nil {
		return err
	}
	secret := v.Kind == Secret || v.Kind == Projected
	if v.Memory || secret {
		options := "mode=0777"
		if v.SizeLimit != "" {
			options += ",size=" + v.SizeLimit
		}
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
			return fmt.Errorf("mount tmpfs for volume %s: %w", v.Name, err)
		}
	}
	if err := v.setMode(dir); err != nil {
		return err
	}
	if secret {
		return writeSecret(dir, v.Files)
	}
	for name, text := range v.Files {
		if err := writeFile(filepath.Join(dir, name), text); err != nil {
			return err
		}
	}
	return nil
}

// setMode is what kubelet does for an emptyDir, with or without fsGroup,
// kubernetes pkg/volume/volume_linux.go:SetVolumeOwnership. The umask must not
// matter.
func (v Volume) setMode(dir string) error {
	if v.FSGroup == 0 {
		return os.Chmod(dir, 0o777)
	}
	return errors.Join(os.Chown(dir, 0, v.FSGroup), os.Chmod(dir, os.ModeSetgid|0o777))
}

// writeSecret lays the files out as kubelet's atomic writer does: every name
// is a link through ..data, which is itself a link, kubernetes
// pkg/volume/util/atomic_writer.go.
func writeSecret(dir string, files map[string]string) error {
	const version = "..2026_11_30_12_00_00.1"
	if err := os.Mkdir(filepath.Join(dir, version), 0o755); err != nil {
		return err
	}
	if err := os.Symlink(version, filepath.Join(dir, "..data")); err != nil {
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, version, name), []byte(text), 0o644); err != nil {
			return err
		}
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// subPath binds a folder of the volume where kubelet would, kubernetes
// pkg/volume/util/subpath/subpath_linux.go:getSubpathBindTarget.
func subPath(pod, volume, source, container string, index int) (string, error) {
	if err := os.MkdirAll(source, 0o750); err != nil {
		return "", err
	}
	target := filepath.Join(pod, "volume-subpaths", volume, container, fmt.Sprint(index))
	if _, err := os.Stat(target); err == nil {
		return target, nil // of the container's earlier attempt
	}
	if err := os.MkdirAll(target, 0o750); err != nil {
		return "", err
	}
	if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil {
		return "", fmt.Errorf("bind subPath of volume %s: %w", volume, err)
	}
	return target, nil
}
