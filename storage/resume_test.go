// SPDX-License-Identifier: Apache-2.0

package storage_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sedna-io/containerd-shim-sedna/storage"
	"github.com/sedna-io/containerd-shim-sedna/storage/storagetest"
	"github.com/sedna-io/containerd-shim-sedna/storage/worker"
)

// childEnv makes the test binary a process that fetches the request on its
// stdin into its folder, to be killed.
const (
	childEnv = "STORAGE_TEST_CHILD"
	pourEnv  = "STORAGE_TEST_POUR" // has the child pour all that it can
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		child(dir)
		return
	}
	os.Exit(m.Run())
}

func child(dir string) {
	if os.Getenv(pourEnv) != "" {
		storage.PourAlways()
	}
	var req worker.Request
	line, _ := bufio.NewReader(os.Stdin).ReadBytes('\n')
	if err := json.Unmarshal(line, &req); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	root, err := os.OpenRoot(dir)
	if err == nil {
		_, err = storage.Run(context.Background(), root, req, func(worker.Event) {})
	}
	fmt.Println(err)
}

// killedAt fetches in a process that is killed once the server has served
// that many bytes.
func killedAt(t *testing.T, s *storagetest.Server, dir string, req worker.Request, bytes int64) {
	t.Helper()
	line, err := json.Marshal(req)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+dir)
	cmd.Stdin = strings.NewReader(string(line) + "\n")
	done := make(chan error, 1)
	var once sync.Once
	reached := make(chan struct{})
	s.OnServed(func(total int64) {
		if total >= bytes {
			once.Do(func() { close(reached) })
		}
	})
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { done <- cmd.Wait() }()
	select {
	case <-reached:
		_ = cmd.Process.Kill()
		<-done
	case err := <-done:
		t.Fatalf("the process ended before it was killed: %v", err)
	}
	s.OnServed(nil)
}

func TestAKilledFetchGoesOnWhereItWas(t *testing.T) {
	const size = 64 << 20
	data := storagetest.Bytes(size)
	for _, percent := range []int64{20, 60, 99} {
		t.Run(fmt.Sprintf("%d percent", percent), func(t *testing.T) {
			// What was on its way through the kernel's buffers at the moment of the
			// kill is lost, and how much that is depends on the scheduler: one try
			// of three has to show that nothing else is.
			var all int64
			for range 3 {
				if all = servedInAll(t, t.TempDir(), data, size*percent/100); all <= size*105/100 {
					return
				}
				t.Logf("%d bytes were served in all, of %d", all, size)
			}
			t.Errorf("%d bytes were served in all, of %d", all, size)
		})
	}
}

// servedInAll kills a fetch of data when so much was served, lets another go on,
// and returns how much the server has served to both.
func servedInAll(t *testing.T, dir string, data []byte, killed int64) int64 {
	t.Helper()
	web := storagetest.NewFiles()
	web.Put("/f.bin", data)
	s := storagetest.Serve(t, web, nil)
	// The server keeps pace with the client, so that what it has served is what
	// the client has.
	s.Pace(64 << 10)
	req := request(item(t, s.URL+"/f.bin", "p/f"))
	req.Limits.Concurrency = 4
	killedAt(t, s, dir, req, killed)
	wantNothing(t, dir)
	s.Pace(0)
	report, err := run(t, dir, req)
	if err != nil {
		t.Fatal(err)
	}
	wantFiles(t, dir, map[string]string{"p/f": string(data)})
	if report.Bytes != int64(len(data)) {
		t.Errorf("the report says %+v", report)
	}
	return s.Served.Load()
}

func TestWhatAnEarlierRunLeftIsProvenFirst(t *testing.T) {
	const size = 32 << 20
	data := storagetest.Bytes(size)
	damage := map[string]func(part string) error{
		"truncated":           func(p string) error { return os.Truncate(p, size/4) },
		"empty":               func(p string) error { return os.Truncate(p, 0) },
		"gone":                os.Remove,
		"zeroed at its end":   func(p string) error { return overwrite(p, size/8, make([]byte, 1<<20)) },
		"flipped in a byte":   func(p string) error { return overwrite(p, 1000, []byte{data[1000] ^ 1}) },
		"a link elsewhere":    swapForLink,
		"a second name of it": func(p string) error { return os.Link(p, p+"x") },
	}
	for name, f := range damage {
		for _, digest := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, digest %v", name, digest), func(t *testing.T) {
				web := storagetest.NewFiles()
				web.Put("/f.bin", data)
				s := storagetest.Serve(t, web, nil)
				s.Pace(64 << 10)
				dir := t.TempDir()
				i := item(t, s.URL+"/f.bin", "p/f")
				if digest {
					i.Digest = storagetest.Digest(data)
				}
				req := request(i)
				req.Limits.Concurrency = 2
				killedAt(t, s, dir, req, size/2)
				parts, _ := filepath.Glob(filepath.Join(dir, ".sedna", "*.part"))
				if len(parts) != 1 {
					t.Fatalf("partial files are %v", parts)
				}
				if err := f(parts[0]); err != nil {
					t.Fatal(err)
				}
				s.Pace(0)
				if _, err := run(t, dir, req); err != nil {
					t.Fatal(err)
				}
				wantFiles(t, dir, map[string]string{"p/f": string(data)})
			})
		}
	}
}

func overwrite(p string, off int64, data []byte) error {
	f, err := os.OpenFile(p, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteAt(data, off)
	return err
}

func swapForLink(p string) error {
	if err := os.Rename(p, p+".moved"); err != nil {
		return err
	}
	return os.Symlink(filepath.Base(p)+".moved", p)
}

func TestAChangedObjectIsNotResumed(t *testing.T) {
	const size = 16 << 20
	old, fresh := storagetest.Bytes(size), storagetest.Bytes(size + 1)[1:]
	web := storagetest.NewFiles()
	web.Put("/f.bin", old)
	s := storagetest.Serve(t, web, nil)
	s.Pace(64 << 10)
	dir := t.TempDir()
	req := request(item(t, s.URL+"/f.bin", "f"))
	killedAt(t, s, dir, req, size/2)
	web.Put("/f.bin", fresh)
	s.Pace(0)
	if _, err := run(t, dir, req); err != nil {
		t.Fatal(err)
	}
	wantFiles(t, dir, map[string]string{"f": string(fresh)})
}

func TestAWritableVolumeIsResumedOnlyWithADigest(t *testing.T) {
	const size = 16 << 20
	data := storagetest.Bytes(size)
	for _, digest := range []bool{false, true} {
		web := storagetest.NewFiles()
		web.Put("/f.bin", data)
		s := storagetest.Serve(t, web, nil)
		s.Pace(64 << 10)
		dir := t.TempDir()
		i := item(t, s.URL+"/f.bin", "f")
		if digest {
			i.Digest = storagetest.Digest(data)
		}
		req := request(i)
		req.Writable = true
		killedAt(t, s, dir, req, size/2)
		before := s.Served.Load()
		s.Pace(0)
		if _, err := run(t, dir, req); err != nil {
			t.Fatal(err)
		}
		wantFiles(t, dir, map[string]string{"f": string(data)})
		if again := s.Served.Load() - before; (again < size) != digest {
			t.Errorf("digest %v: %d bytes were served again", digest, again)
		}
	}
}

func TestManyObjectsGoOnWhereTheyWere(t *testing.T) {
	b := storagetest.NewBucket("models")
	want := map[string]string{}
	for i := range 400 {
		name := fmt.Sprintf("f%03d", i)
		data := storagetest.Bytes(16<<10 + i)
		b.Put("m/"+name, data)
		want["p/"+name] = string(data)
	}
	s := storagetest.Serve(t, b, nil)
	dir := t.TempDir()
	req := request(s3Item(t, s.URL, "s3://models/m/", "p"))
	killedAt(t, s, dir, req, 300*16<<10)
	gets := 0
	s.Watch(func(r *http.Request) {
		if !r.URL.Query().Has("list-type") {
			gets++
		}
	})
	if _, err := run(t, dir, req); err != nil {
		t.Fatal(err)
	}
	wantFiles(t, dir, want)
	if gets > 200 {
		t.Errorf("%d of 400 objects were fetched again", gets)
	}
}
