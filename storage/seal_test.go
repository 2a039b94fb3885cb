// SPDX-License-Identifier: Apache-2.0

package storage_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/sedna-io/containerd-shim-sedna/storage/storagetest"
)

func TestWhatAContainerCouldWriteIsNotTrusted(t *testing.T) {
	data := storagetest.Bytes(5 << 20)
	web := storagetest.NewFiles()
	web.Put("/f", data)
	s := storagetest.Serve(t, web, nil)
	i := item(t, s.URL+"/f", "f")
	i.Digest = storagetest.Digest(data)
	dir := t.TempDir()
	req := request(i)
	req.Seal = "one"
	if _, err := run(t, dir, req); err != nil {
		t.Fatal(err)
	}
	before := s.Requests.Load()
	if _, err := run(t, dir, req); err != nil || s.Requests.Load() != before {
		t.Fatalf("the same seal: error %v, %d more requests", err, s.Requests.Load()-before)
	}
	// As a container does it that had the volume writable meanwhile.
	name := filepath.Join(dir, "f")
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	evil := append([]byte("evil"), data[4:]...)
	if err := os.WriteFile(name, evil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(name, info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	req.Seal = "two"
	if _, err := run(t, dir, req); err != nil {
		t.Fatal(err)
	}
	wantFiles(t, dir, map[string]string{"f": string(data)})
	before = s.Requests.Load()
	if _, err := run(t, dir, req); err != nil || s.Requests.Load() != before {
		t.Fatalf("sealed anew: error %v, %d more requests", err, s.Requests.Load()-before)
	}
}

func TestNothingThatAContainerLeavesKeepsItsPodFromStarting(t *testing.T) {
	data := storagetest.Bytes(5 << 20)
	web := storagetest.NewFiles()
	web.Put("/f", data)
	s := storagetest.Serve(t, web, nil)
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "victim"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, leave := range map[string]func(folder string) error{
		"a link":            func(f string) error { return os.Symlink(outside, f) },
		"a file":            func(f string) error { return os.WriteFile(f, nil, 0o644) },
		"a folder in it":    func(f string) error { return os.MkdirAll(filepath.Join(f, "journal", "x"), 0o755) },
		"another's folder":  func(f string) error { return chownAll(t, f) },
		"a link to outside": func(f string) error { return linkIn(f, outside) },
	} {
		for _, writable := range []bool{false, true} {
			dir := t.TempDir()
			if err := leave(filepath.Join(dir, ".sedna")); err != nil {
				t.Fatal(err)
			}
			req := request(item(t, s.URL+"/f", "f"))
			req.Pod.UID = "u"
			if req.Writable = writable; !writable {
				req.Seal = "seal"
			}
			if _, err := run(t, dir, req); err != nil {
				t.Errorf("%s, writable %t: %v", name, writable, err)
				continue
			}
			wantFiles(t, dir, map[string]string{"f": string(data)})
			if left, err := os.ReadDir(outside); err != nil || len(left) != 1 {
				t.Fatalf("%s: outside there are %v, %v", name, left, err)
			}
		}
	}
}

// linkIn makes links in .sedna that lead to a file outside of the volume.
func linkIn(folder, outside string) error {
	victim := filepath.Join(outside, "victim")
	if err := os.WriteFile(victim, []byte("victim"), 0o600); err != nil {
		return err
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		return err
	}
	for _, name := range []string{"journal", "seal"} {
		if err := os.Symlink(victim, filepath.Join(folder, name)); err != nil {
			return err
		}
	}
	return nil
}

func chownAll(t *testing.T, folder string) error {
	if os.Getuid() != 0 {
		t.Skip("needs root to give a folder away")
	}
	if err := os.Mkdir(folder, 0o755); err != nil {
		return err
	}
	return os.Chown(folder, 1000, 1000)
}
