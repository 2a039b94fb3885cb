// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"bytes"
	"io"
	"os"
	"testing"

	"github.com/sedna-io/containerd-shim-sedna/storage/storagetest"
	"github.com/sedna-io/containerd-shim-sedna/storage/worker"
)

// A transfer that starts over has no hole where the new version's bytes are.
func TestOnlyAReaderOfTheSameVersionGivesBack(t *testing.T) {
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	tree, err := openTree(root, &worker.Request{})
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	tr := newTransfer(job{item: &worker.Item{}}, 1)
	if tr.file, err = tree.Create("archive"); err != nil {
		t.Fatal(err)
	}
	defer tr.file.Close()
	data := storagetest.Bytes(1 << 20)
	arrive := func() {
		if _, err := tr.file.WriteAt(data, 0); err != nil {
			t.Fatal(err)
		}
		tr.have.add(span{0, int64(len(data))})
	}
	arrive()
	old := tr.follow()
	if _, err := io.ReadFull(old, make([]byte, 600<<10)); err != nil {
		t.Fatal(err)
	}
	if !old.giveBack(tree) || old.giveBack(tree) {
		t.Fatal("what is read isn't given back once")
	}
	got := make([]byte, len(data))
	if _, err := tr.file.ReadAt(got, 0); err != nil || !bytes.Equal(got[:600<<10], make([]byte, 600<<10)) || !bytes.Equal(got[600<<10:], data[600<<10:]) {
		t.Errorf("given back is something else than what was read (%v)", err)
	}
	tr.restart()
	arrive()
	old.off = int64(len(data))
	if old.giveBack(tree) {
		t.Error("a reader of the old version gives back the new one")
	}
	if _, err := tr.file.ReadAt(got, 0); err != nil || !bytes.Equal(got, data) {
		t.Errorf("the new version has a hole (%v)", err)
	}
}
