// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestAHoleBetweenSamplesIsFound(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(make([]byte, bufferSize)); err != nil {
		t.Fatal(err)
	}
	r := &resumed{data: f}
	if _, err := r.sum(0, bufferSize, true); err != nil {
		t.Fatal(err)
	}
	err = unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 64<<10, 64<<10)
	if err != nil {
		t.Skipf("can't make a hole here: %v", err)
	}
	again := &resumed{data: f}
	if _, err := again.sum(0, bufferSize, true); !errors.Is(err, errHole) {
		t.Errorf("error is %v", err)
	}
}
