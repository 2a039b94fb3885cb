// SPDX-License-Identifier: Apache-2.0

package storage_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/containerd/errdefs"

	"github.com/sedna-io/containerd-shim-sedna/storage/plan"
	"github.com/sedna-io/containerd-shim-sedna/storage/storagetest"
)

// aTar is a plain tar of three files of 4 MiB each.
func aTar(t *testing.T) (data []byte, content map[string]string) {
	t.Helper()
	content = map[string]string{}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for i, name := range []string{"a", "b", "c"} {
		file := storagetest.Bytes(4<<20 + i)
		content["h/"+name] = string(file)
		if err := w.WriteHeader(&tar.Header{Name: name, Size: int64(len(file)), Mode: 0o644}); err != nil {
			t.Fatal(err)
		}
		_, _ = w.Write(file)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes(), content
}

// An archive and its content need no room side by side.
func TestWhatIsUnpackedMakesRoomForTheRest(t *testing.T) {
	data, content := aTar(t)
	web := storagetest.NewFiles()
	web.Put("/m.tar", data)
	for name, digest := range map[string]string{"without a digest": "", "with one": storagetest.Digest(data)} {
		t.Run(name, func(t *testing.T) {
			s := storagetest.Serve(t, web, nil)
			i := archived(item(t, s.URL+"/m.tar", "h"), plan.Tar)
			i.Digest = digest
			dir := smallMemory(t, "16m")
			if _, err := run(t, dir, request(i)); err != nil {
				t.Fatal(err)
			}
			wantFiles(t, dir, content)
		})
	}
	t.Run("and there's an error where that isn't enough", func(t *testing.T) {
		many := request(archived(item(t, storagetest.Serve(t, web, nil).URL+"/m.tar", "h"), plan.Tar))
		dir := smallMemory(t, "12m")
		_, err := run(t, dir, many)
		if !errors.Is(err, errdefs.ErrResourceExhausted) || !strings.Contains(err.Error(), "free") {
			t.Errorf("error is %v", err)
		}
		wantNothing(t, dir)
	})
	t.Run("and limits hold as before", func(t *testing.T) {
		req := request(archived(item(t, storagetest.Serve(t, web, nil).URL+"/m.tar", "h"), plan.Tar))
		req.Limits.MaxBytes = int64(len(data)) + 8<<20
		dir := smallMemory(t, "16m")
		_, err := run(t, dir, req)
		if !errors.Is(err, errdefs.ErrResourceExhausted) || !strings.Contains(err.Error(), "larger than the limit") {
			t.Errorf("error is %v", err)
		}
		wantNothing(t, dir)
	})
}

// What was given back is nothing that a later run may go on from.
func TestAnArchiveThatWasGivenBackIsFetchedAnew(t *testing.T) {
	data, content := aTar(t)
	web := storagetest.NewFiles()
	web.Put("/m.tar", data)
	s := storagetest.Serve(t, web, nil)
	dir := smallMemory(t, "16m")
	req := request(archived(item(t, s.URL+"/m.tar", "h"), plan.Tar))
	req.Limits.Concurrency = 1
	held := int64(len(data)) * 95 / 100
	s.Hold(held)
	killedWith(t, dir, req, held-int64(len(data))/20)
	wantNothing(t, dir)
	s.Hold(0)
	before := s.Served.Load()
	if _, err := run(t, dir, req); err != nil {
		t.Fatal(err)
	}
	wantFiles(t, dir, content)
	if again := s.Served.Load() - before; again < int64(len(data)) {
		t.Errorf("only %d of %d bytes were fetched again", again, len(data))
	}
}
