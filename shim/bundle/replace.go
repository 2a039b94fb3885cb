// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// replaceFile puts data in the place of the file at path, with its mode and
// owner: written beside, synced, renamed, and the folder synced.
func replaceFile(path string, data []byte) (err error) {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	// One fixed name: what a crash leaves behind, the next Save takes away.
	beside := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".sedna")
	if err := os.Remove(beside); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(beside, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(beside)
		}
	}()
	if err := fill(f, data, info); err != nil {
		_ = f.Close()
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := os.Rename(beside, path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// fill writes data to f and makes its owner and mode those of like.
func fill(f *os.File, data []byte, like fs.FileInfo) error {
	if _, err := f.Write(data); err != nil {
		return err
	}
	if stat, ok := like.Sys().(*syscall.Stat_t); ok {
		if err := f.Chown(int(stat.Uid), int(stat.Gid)); err != nil {
			return err
		}
	}
	if err := f.Chmod(like.Mode()); err != nil { // after chown, which may clear bits
		return err
	}
	return f.Sync()
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		return fmt.Errorf("sync the folder: %w", err)
	}
	return nil
}
