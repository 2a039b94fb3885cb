// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// sealFile marks an emptyDir whose contents only we have written since the mark
// was made. It lies where no container sees it: in the folder that kubelet keeps
// for each emptyDir and removes before the volume itself: kubernetes/kubernetes
// pkg/volume/emptydir/empty_dir.go:getMetaDir, TearDownAt.
const sealFile = "sedna-seal"

func (v *PodVolumes) sealDir() string {
	return filepath.Join(v.podsDir, v.uid, "plugins", emptyDirPlugin)
}

// Seal returns the mark of an emptyDir that containers are going to read only,
// and makes it where there is none.
func (v *PodVolumes) Seal(name string) (string, error) {
	path := filepath.Join(v.sealDir(), name, sealFile)
	seal, err := os.ReadFile(path)
	if err == nil && len(seal) > 0 {
		return string(seal), nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read the seal of volume %q: %w", name, err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return "", fmt.Errorf("seal volume %q: %w", name, err)
	}
	fresh := rand.Text()
	if err := os.WriteFile(path+".new", []byte(fresh), 0o600); err != nil {
		return "", fmt.Errorf("seal volume %q: %w", name, err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return "", fmt.Errorf("seal volume %q: %w", name, err)
	}
	return fresh, nil
}

// Unseal takes the marks from all emptyDirs but one, "" for none, before the
// pod's containers may write them.
func (v *PodVolumes) Unseal(except string) error {
	if v.uid == "" || !v.found {
		return nil
	}
	entries, err := os.ReadDir(v.sealDir())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("look for seals of volumes: %w", err)
	}
	for _, e := range entries {
		if e.Name() == except {
			continue
		}
		if err := os.Remove(filepath.Join(v.sealDir(), e.Name(), sealFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("unseal volume %q: %w", e.Name(), err)
		}
	}
	return nil
}
