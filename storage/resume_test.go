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
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

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
		_, err = storage.Run(context.Background(), root, req, func(e worker.Event) { fmt.Println(e.Progress.Bytes) })
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

// killedWith fetches in a process that is killed once it says that it has so
// many bytes.
func killedWith(t *testing.T, dir string, req worker.Request, bytes int64) {
	t.Helper()
	line, err := json.Marshal(req)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+dir)
	cmd.Stdin = strings.NewReader(string(line) + "\n")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := ""
	for lines := bufio.NewScanner(out); lines.Scan(); {
		said = lines.Text()
		if n, err := strconv.ParseInt(said, 10, 64); err == nil && n >= bytes {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			return
		}
	}
	t.Fatalf("the process ended before it had %d bytes (%v), and said last: %s", bytes, cmd.Wait(), said)
}

func TestAKilledFetchGoesOnWhereItWas(t *testing.T) {
	for _, size := range []int64{6 << 20, 64 << 20} {
		for _, percent := range []int64{20, 60, 99} {
			for _, connections := range []int{4, 32} {
				t.Run(fmt.Sprintf("%d MiB, %d percent, %d connections", size>>20, percent, connections), func(t *testing.T) {
					goesOn(t, t.TempDir(), size, size*percent/100, connections)
				})
			}
		}
	}
}

// goesOn kills a fetch that can have had so many bytes of all, and sees that the
// next one fetches the rest, and of what was there a twentieth of all at most.
func goesOn(t *testing.T, dir string, size, served int64, connections int) {
	t.Helper()
	data := storagetest.Bytes(int(size))
	web := storagetest.NewFiles()
	web.Put("/f.bin", data)
	s := storagetest.Serve(t, web, nil)
	s.Hold(served)
	req := request(item(t, s.URL+"/f.bin", "p/f"))
	req.Limits.Concurrency = connections
	// Nothing is on its way any more, so that all but what it holds in its
	// buffers is written, or it will never say so.
	killedWith(t, dir, req, served-size/20)
	wantNothing(t, dir)
	s.Hold(0)
	before := s.Served.Load()
	// With one connection no part takes over from another, and the server counts
	// no byte that nobody reads.
	req.Limits.Concurrency = 1
	report, err := run(t, dir, req)
	if err != nil {
		t.Fatal(err)
	}
	wantFiles(t, dir, map[string]string{"p/f": string(data)})
	if report.Bytes != size {
		t.Errorf("the report says %+v", report)
	}
	if again := s.Served.Load() - before; again > size-served+size/20 {
		t.Errorf("the second run was served %d bytes, and %d of %d were left", again, size-served, size)
	}
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
