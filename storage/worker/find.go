// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/containerd/errdefs"
)

// Find returns the path of the worker's binary: name itself when it has a
// slash, else beside the running program, else on PATH. Not to find it is
// errdefs.ErrFailedPrecondition and says where it was looked for.
func Find(name string) (string, error) {
	if filepath.IsAbs(name) {
		if err := executable(name); err != nil {
			return "", fmt.Errorf("worker %s, named by [storage] worker: %w: %w", name, err, errdefs.ErrFailedPrecondition)
		}
		return name, nil
	}
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find the running program: %w", err)
	}
	beside := filepath.Join(filepath.Dir(self), name)
	if executable(beside) == nil {
		return beside, nil
	}
	found, err := exec.LookPath(name)
	if err == nil && filepath.IsAbs(found) {
		return found, nil
	}
	return "", fmt.Errorf("worker %q is neither beside the shim (%s) nor on PATH (%s); install sedna-storage there or set [storage] worker: %w",
		name, beside, os.Getenv("PATH"), errdefs.ErrFailedPrecondition)
}

func executable(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return errors.New("not an executable file")
	}
	return nil
}
