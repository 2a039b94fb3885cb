// SPDX-License-Identifier: Apache-2.0

package storage_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"

	"github.com/sedna-io/containerd-shim-sedna/storage"
	"github.com/sedna-io/containerd-shim-sedna/storage/storagetest"
	"github.com/sedna-io/containerd-shim-sedna/storage/worker"
)

// inMemory returns a volume that data is poured into. The test must have no
// others beside it.
func inMemory(t *testing.T) string {
	t.Helper()
	t.Setenv(pourEnv, "1")
	t.Cleanup(storage.PourAlways())
	var st unix.Statfs_t
	if err := unix.Statfs("/dev/shm", &st); err != nil || st.Type != unix.TMPFS_MAGIC {
		t.Skip("/dev/shm is no tmpfs")
	}
	return memoryDir(t)
}

func memoryDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "storage-test") //nolint:usetesting // it must be in memory
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func TestEveryFaultWhilePouringEndsInRightBytesOrANamedError(t *testing.T) {
	inMemory(t)
	data := storagetest.Bytes(faultSize)
	t.Run("faults", func(t *testing.T) {
		for _, tt := range append(faults(), fault{name: "another ETag midway fails", choose: ranged(storagetest.ETag(`"other"`)), err: "changed at the source", kind: errdefs.ErrUnavailable}) {
			t.Run(tt.name, func(t *testing.T) {
				t.Parallel()
				web := storagetest.NewFiles()
				web.Put("/model.bin", data)
				s := storagetest.Serve(t, web, tt.choose)
				tt.judge(t, memoryDir(t), item(t, s.URL+"/model.bin?token=CANARY", "d/model.bin"), data)
			})
		}
	})
}

func TestAKilledFetchThatPouredGoesOnWhereItWas(t *testing.T) {
	inMemory(t)
	for _, percent := range []int64{20, 60, 99} {
		t.Run(fmt.Sprintf("%d percent", percent), func(t *testing.T) {
			const size = 64 << 20
			goesOn(t, memoryDir(t), size, size*percent/100, 4)
		})
	}
}

func TestWhatWasPouredBeforeIsLookedAtFirst(t *testing.T) {
	inMemory(t)
	const size = 32 << 20
	data := storagetest.Bytes(size)
	for _, tt := range []struct {
		name   string
		damage func(part string) error
		digest bool
		again  int64 // bytes at least that have to come again
	}{
		{"as it was", func(string) error { return nil }, false, 0},
		{"another boot", func(string) error { t.Cleanup(storage.AnotherBoot()); return nil }, false, size * 9 / 10},
		{"truncated", func(p string) error { return os.Truncate(p, 1<<20) }, false, size / 2},
		{"a hole", func(p string) error { return punch(p, 64<<10, 64<<10) }, false, size/2 + 64<<10},
		{"zeroed at its end", func(p string) error { return overwrite(p, size/16, make([]byte, size)) }, false, size / 2},
		{"flipped in a byte", func(p string) error { return overwrite(p, 1<<20+5000, []byte{data[1<<20+5000] ^ 1}) }, true, size * 9 / 10},
	} {
		t.Run(tt.name, func(t *testing.T) {
			web := storagetest.NewFiles()
			web.Put("/f.bin", data)
			s := storagetest.Serve(t, web, nil)
			s.Pace(64 << 10)
			dir := memoryDir(t)
			i := item(t, s.URL+"/f.bin", "f")
			if tt.digest {
				i.Digest = storagetest.Digest(data)
			}
			req := request(i)
			req.Limits.Concurrency = 1
			killedAt(t, s, dir, req, size/2)
			if n := pouredRecords(t, dir); n == 0 {
				t.Fatal("nothing was poured")
			}
			parts, _ := filepath.Glob(filepath.Join(dir, ".sedna", "*.part"))
			if err := tt.damage(parts[0]); err != nil {
				t.Fatal(err)
			}
			s.Pace(0)
			before := s.Served.Load()
			if _, err := run(t, dir, req); err != nil {
				t.Fatal(err)
			}
			wantFiles(t, dir, map[string]string{"f": string(data)})
			again := s.Served.Load() - before
			if again < tt.again || tt.again == 0 && again > size*6/10 {
				t.Errorf("%d bytes of %d were served again", again, size)
			}
		})
	}
}

// pouredRecords counts the records of poured data in the one part log.
func pouredRecords(t *testing.T, dir string) (n int) {
	t.Helper()
	logs, _ := filepath.Glob(filepath.Join(dir, ".sedna", "*.log"))
	if len(logs) != 1 {
		t.Fatalf("part logs are %v", logs)
	}
	text, err := os.ReadFile(logs[0])
	if err != nil {
		t.Fatal(err)
	}
	records := text[bytes.IndexByte(text, '\n')+1:]
	for ; len(records) >= 20; records = records[20:] {
		if records[11]&0x80 != 0 { // the length's highest bit
			n++
		}
	}
	return n
}

func punch(p string, off, n int64) error {
	f, err := os.OpenFile(p, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, off, n)
}

func TestAVolumeThatFillsUpWhilePouringIsSaidInWords(t *testing.T) {
	inMemory(t)
	dir := smallMemory(t, "16m")
	web := storagetest.NewFiles()
	web.Put("/f", storagetest.Bytes(12<<20))
	s := storagetest.Serve(t, web, nil)
	var once sync.Once
	s.Watch(func(r *http.Request) {
		if strings.HasPrefix(r.Header.Get("Range"), "bytes=0-") {
			return
		}
		once.Do(func() { // somebody else takes what was free
			if err := os.WriteFile(filepath.Join(dir, "other"), make([]byte, 10<<20), 0o600); err != nil {
				t.Error(err)
			}
		})
	})
	_, err := run(t, dir, request(item(t, s.URL+"/f", "f")))
	if !errors.Is(err, errdefs.ErrResourceExhausted) || !strings.Contains(err.Error(), "of its 16 MiB there are") {
		t.Errorf("error is %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "f")); err == nil {
		t.Error("a file is there")
	}
}

func TestWhatIsPouredIsCountedAndCheckedAlong(t *testing.T) {
	dir := inMemory(t)
	data := storagetest.Bytes(24 << 20)
	web := storagetest.NewFiles()
	web.Put("/f", data)
	i := item(t, storagetest.Serve(t, web, nil).URL+"/f", "f")
	i.Digest = storagetest.Digest(data)
	report, err := run(t, dir, request(i))
	if err != nil {
		t.Fatal(err)
	}
	wantFiles(t, dir, map[string]string{"f": string(data)})
	want := worker.ItemReport{Bytes: int64(len(data)), Fetched: int64(len(data)), Digest: i.Digest}
	if got := report.Items[0]; got.Bytes != want.Bytes || got.Fetched != want.Fetched || got.Digest != want.Digest {
		t.Errorf("the report says %+v", got)
	}
}
