// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"github.com/containerd/errdefs"
)

// Bounds on a credentials volume. A Secret holds at most 1 MiB; a projected
// volume may join several.
const (
	maxSecretFiles = 256
	maxSecretBytes = 4 << 20
)

// Secret returns the files of the Secret or projected volume called name, by
// file name. kubelet lays them out as symbolic links into ..data, which must
// stay inside the volume; folders and names that begin with .. are passed over.
func (v *PodVolumes) Secret(name string) (map[string][]byte, error) {
	path, err := v.folder(name, "a Secret or projected volume", secretPlugin, projectedPlugin)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, fmt.Errorf("open volume %q: %w", name, err)
	}
	defer root.Close()
	files, err := readFiles(root)
	if err != nil {
		return nil, fmt.Errorf("read volume %q: %w", name, err)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("volume %q has no files: is its Secret empty, or optional and missing?: %w", name, errdefs.ErrNotFound)
	}
	return files, nil
}

// readFiles reads the regular files at the top of root.
func readFiles(root *os.Root) (map[string][]byte, error) {
	dir, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	left := int64(maxSecretBytes)
	for _, name := range names {
		if strings.HasPrefix(name, "..") {
			continue
		}
		data, ok, err := readFile(root, name, left)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		if left -= int64(len(data)); left < 0 || len(files) == maxSecretFiles {
			return nil, fmt.Errorf("more than %d files or %d MiB: %w", maxSecretFiles, maxSecretBytes>>20, errdefs.ErrResourceExhausted)
		}
		files[name] = data
	}
	return files, nil
}

// readFile reads at most one byte more than limit. ok is false for anything
// but a regular file.
func readFile(root *os.Root, name string, limit int64) (data []byte, ok bool, err error) {
	// O_NONBLOCK: a FIFO must not hang the shim. The root refuses a link that
	// leads out of it.
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, false, fmt.Errorf("%q leads out of the volume or to nothing, which the kubelet never makes so: %w: %w", name, err, errdefs.ErrPermissionDenied)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil, false, err
	}
	data, err = io.ReadAll(io.LimitReader(f, limit+1))
	return data, true, err
}
