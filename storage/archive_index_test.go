// SPDX-License-Identifier: Apache-2.0

package storage_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"

	"github.com/sedna-io/containerd-shim-sedna/storage"
	"github.com/sedna-io/containerd-shim-sedna/storage/plan"
	"github.com/sedna-io/containerd-shim-sedna/storage/storagetest"
	"github.com/sedna-io/containerd-shim-sedna/storage/worker"
)

// tarGz makes an archive of files by name; a trailing "*" makes one executable.
func tarGz(t testing.TB, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for name, data := range files {
		h := &tar.Header{Name: strings.TrimSuffix(name, "*"), Size: int64(len(data)), Mode: 0o600}
		if strings.HasSuffix(name, "*") {
			h.Mode = 0o700
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		_, _ = w.Write([]byte(data))
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func zipped(t testing.TB, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for name, data := range files {
		f, err := w.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = f.Write([]byte(data))
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func archived(i worker.Item, format plan.Archive) worker.Item {
	i.Archive = format
	return i
}

func TestArchivesAreUnpackedWhereTheyWouldHaveBeenStored(t *testing.T) {
	big := string(storagetest.Bytes(6 << 20))
	content := map[string]string{"d/a": "a", "d/big": big, "run*": "x"}
	want := map[string]string{"h/d/a": "a", "h/d/big": big, "h/run": "x"}
	web := storagetest.NewFiles()
	gz := tarGz(t, content)
	web.Put("/m.tar.gz", gz)
	web.Put("/m.zip", zipped(t, map[string]string{"d/a": "a", "d/big": big, "run": "x"}))
	b := storagetest.NewBucket("models")
	b.Put("m.tar.gz", gz)
	s, s3 := storagetest.Serve(t, web, nil), storagetest.Serve(t, b, nil)
	withDigest := archived(item(t, s.URL+"/m.tar.gz?sig=x", "h"), plan.TarGzip)
	withDigest.Digest = storagetest.Digest(gz)
	for name, i := range map[string]worker.Item{
		"tar.gz over http": archived(item(t, s.URL+"/m.tar.gz", "h"), plan.TarGzip), "tar.gz over s3": archived(s3Item(t, s3.URL, "s3://models/m.tar.gz", "h"), plan.TarGzip),
		"zip": archived(item(t, s.URL+"/m.zip", "h"), plan.Zip), "tar.gz with a digest": withDigest,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			report, err := run(t, dir, request(i))
			if err != nil {
				t.Fatal(err)
			}
			wantFiles(t, dir, want)
			var st unix.Stat_t
			if err := unix.Stat(filepath.Join(dir, "h/d/a"), &st); err != nil || st.Mode&0o777 != 0o644 {
				t.Errorf("the mode of a file is %o", st.Mode)
			}
			if err := unix.Stat(filepath.Join(dir, "h/run"), &st); err != nil || i.Archive != plan.Zip && st.Mode&0o777 != 0o755 {
				t.Errorf("the mode of a program is %o", st.Mode)
			}
			if n := int64(len(big) + 2); report.Bytes != n || report.Files != 3 {
				t.Errorf("the report says %d bytes in %d files", report.Bytes, report.Files)
			}
			if left, _ := filepath.Glob(filepath.Join(dir, ".sedna/*")); len(left) != 1 {
				t.Errorf("left over are %v", left)
			}
			before := s.Requests.Load()
			if again, err := run(t, dir, request(i)); err != nil || again.Files != 3 || s.Requests.Load() != before {
				t.Errorf("a second run: %+v, %v", again, err)
			}
		})
	}
}

func TestBadArchivesLeaveNothing(t *testing.T) {
	web := storagetest.NewFiles()
	good := tarGz(t, map[string]string{"a": string(storagetest.Bytes(5 << 20))})
	evil := tarGz(t, map[string]string{"../evil": "x"})
	web.Put("/cut.tar.gz", good[:len(good)-100])
	web.Put("/evil.tar.gz", evil)
	web.Put("/page.zip", []byte("<html>log in</html>"))
	web.Put("/good.tar.gz", good)
	s := storagetest.Serve(t, web, nil)
	for _, tt := range []struct {
		name, file, digest, says string
		format                   plan.Archive
	}{
		{"cut off", "cut.tar.gz", "", "damaged", plan.TarGzip},
		{"a parent", "evil.tar.gz", "", `"../evil"`, plan.TarGzip},
		{"no zip", "page.zip", "", "damaged", plan.Zip},
		{"a wrong digest", "good.tar.gz", storagetest.Digest(evil), "its digest is", plan.TarGzip},
		{"a wrong digest and damage", "cut.tar.gz", storagetest.Digest(good), "its digest is", plan.TarGzip},
	} {
		t.Run(tt.name, func(t *testing.T) {
			i := archived(item(t, s.URL+"/"+tt.file, "h"), tt.format)
			i.Digest = tt.digest
			dir := t.TempDir()
			_, err := run(t, dir, request(i))
			if err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("error is %v, want %q", err, tt.says)
			}
			wantNothing(t, dir)
		})
	}
}

func TestArchivesMergeUnlessTheyHaveOnePath(t *testing.T) {
	web := storagetest.NewFiles()
	web.Put("/1.zip", zipped(t, map[string]string{"d/a": "1"}))
	web.Put("/2.zip", zipped(t, map[string]string{"d/b": "2"}))
	web.Put("/3.zip", zipped(t, map[string]string{"d/a": "3"}))
	s := storagetest.Serve(t, web, nil)
	one := archived(item(t, s.URL+"/1.zip", "h"), plan.Zip)
	dir := t.TempDir()
	if _, err := run(t, dir, request(one, archived(item(t, s.URL+"/2.zip", "h"), plan.Zip))); err != nil {
		t.Fatal(err)
	}
	wantFiles(t, dir, map[string]string{"h/d/a": "1", "h/d/b": "2"})
	_, err := run(t, t.TempDir(), request(one, archived(item(t, s.URL+"/3.zip", "h"), plan.Zip)))
	if !errors.Is(err, errdefs.ErrAlreadyExists) || !strings.Contains(err.Error(), "/1.zip") || !strings.Contains(err.Error(), "/3.zip") {
		t.Errorf("error is %v", err)
	}
}

func TestIndexFilesAreFollowed(t *testing.T) {
	big := string(storagetest.Bytes(9 << 20))
	web := storagetest.NewFiles()
	b := storagetest.NewBucket("data")
	for name, data := range map[string]string{"img/1.jpg": "one", "img/2 ü.jpg": "two", "big": big} {
		web.Put("/base/"+name, []byte(data))
		b.Put("base/"+name, []byte(data))
	}
	s, s3 := storagetest.Serve(t, web, nil), storagetest.Serve(t, b, nil)
	lines := "\nimg/1.jpg\n\n# a comment\nimg/2 ü.jpg\nbig\nimg/1.jpg\n"
	webIndex, s3Index := "# index\n"+s.URL+"/base/"+lines, "s3://data/base"+lines
	web.Put("/sets/train.txt", []byte(webIndex))
	b.Put("sets/train.txt", []byte(s3Index))
	for name, tt := range map[string]struct {
		i    worker.Item
		text string
	}{
		"http": {item(t, s.URL+"/sets/train.txt", "h/sets/train.txt"), webIndex},
		"s3":   {s3Item(t, s3.URL, "s3://data/sets/train.txt", "h/sets/train.txt"), s3Index},
	} {
		t.Run(name, func(t *testing.T) {
			tt.i.Indirect = true
			dir := t.TempDir()
			if _, err := run(t, dir, request(tt.i)); err != nil {
				t.Fatal(err)
			}
			wantFiles(t, dir, map[string]string{
				"h/sets/train.txt": tt.text, "h/sets/img/1.jpg": "one", "h/sets/img/2 ü.jpg": "two", "h/sets/big": big,
			})
		})
	}
}

func TestBadIndexFilesAreRefusedByLine(t *testing.T) {
	for name, tt := range map[string]struct{ text, says string }{
		"empty":         {"", "no base URL"},
		"comments only": {"# x\n\n", "no base URL"},
		"no files":      {"http://h/x\n", "names no files"},
		"a bad base":    {"ftp://h/x\na\n", "no base URL of"},
		"a parent":      {"http://h/x\nok\n../a\n", "line 3"},
		"absolute":      {"http://h/x\n/etc/passwd\n", "line 2"},
		"ours":          {"http://h/x\n.sedna/journal\n", "line 2"},
		"a broken base": {"http://%zz/CANARY\na\n", "no base URL"},
		"another store": {"s3://b/x\na\n", "on S3"},
		"itself":        {"http://h/x\ni.txt\n", "its own place"},
		"below itself":  {"http://h/x\ni.txt/a\n", "its own place"},
		"a long line":   {"http://h/x\n" + strings.Repeat("x", 70_000), "longer than"},
	} {
		t.Run(name, func(t *testing.T) {
			web := storagetest.NewFiles()
			web.Put("/i.txt", []byte(tt.text))
			s := storagetest.Serve(t, web, nil)
			i := item(t, s.URL+"/i.txt", "h/i.txt")
			i.Indirect = true
			dir := t.TempDir()
			_, err := run(t, dir, request(i))
			if !errors.Is(err, errdefs.ErrInvalidArgument) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("error is %v, want %q", err, tt.says)
			}
			if strings.Contains(fmt.Sprint(err), "CANARY") {
				t.Errorf("the error shows the base: %v", err)
			}
			wantNothing(t, dir)
		})
	}
}

func TestPatternsChooseFiles(t *testing.T) {
	b := storagetest.NewBucket("models")
	for _, k := range []string{"a.bin", "a.txt", "d/b.bin", "d/e/c.bin", "d/e/c.txt"} {
		b.Put("m/"+k, []byte(k))
	}
	s := storagetest.Serve(t, b, nil)
	for _, tt := range []struct{ include, exclude, want string }{
		{"*.bin", "", "a.bin"},
		{"**/*.bin", "", "a.bin d/b.bin d/e/c.bin"},
		{"", "**/*.txt", "a.bin d/b.bin d/e/c.bin"},
		{"d/**", "d/e/c.txt", "d/b.bin d/e/c.bin"},
		{"*.none", "", ""},
	} {
		t.Run(tt.include+"!"+tt.exclude, func(t *testing.T) {
			i := s3Item(t, s.URL, "s3://models/m/", "p")
			if tt.include != "" {
				i.Include = []string{tt.include}
			}
			if tt.exclude != "" {
				i.Exclude = []string{tt.exclude}
			}
			dir := t.TempDir()
			_, err := run(t, dir, request(i))
			if tt.want == "" {
				if !errors.Is(err, errdefs.ErrNotFound) || !strings.Contains(err.Error(), "none of the 5 files") {
					t.Errorf("error is %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := map[string]string{}
			for _, k := range strings.Fields(tt.want) {
				want["p/"+k] = k
			}
			wantFiles(t, dir, want)
		})
	}
}

func TestAFileThatIsAFolderTooIsFoundBeforeAnythingIsPlaced(t *testing.T) {
	b := storagetest.NewBucket("models")
	for _, k := range []string{"a", "a-x", "a/b", "z"} {
		b.Put("m/"+k, []byte(k))
	}
	b.PageSize = 1
	s := storagetest.Serve(t, b, nil)
	dir := t.TempDir()
	_, err := run(t, dir, request(s3Item(t, s.URL, "s3://models/m/", "p")))
	if !errors.Is(err, errdefs.ErrAlreadyExists) || !strings.Contains(err.Error(), `"a" is a file and a folder too`) {
		t.Errorf("error is %v", err)
	}
	wantNothing(t, dir)
}

func TestLimitsHold(t *testing.T) {
	web := storagetest.NewFiles()
	web.Put("/f", storagetest.Bytes(5<<20))
	web.Put("/bomb.zip", zipped(t, map[string]string{"a": strings.Repeat("x", 8<<20)}))
	b := storagetest.NewBucket("models")
	for i := range 30 {
		b.Put(fmt.Sprintf("m/%02d", i), storagetest.Bytes(100_000))
	}
	s, s3 := storagetest.Serve(t, web, nil), storagetest.Serve(t, b, nil)
	chunked := storagetest.Serve(t, web, always(storagetest.Chunked()))
	folders := storagetest.NewBucket("models")
	for i := range 30 {
		folders.Put(fmt.Sprintf("marked/%02d/", i), nil)
	}
	folders.Put("marked/z", nil)
	s3folders := storagetest.Serve(t, folders, nil)
	tests := []struct {
		name   string
		item   worker.Item
		limits worker.Limits
		says   string
	}{
		{"markers of folders", s3Item(t, s3folders.URL, "s3://models/marked/", "p"), worker.Limits{MaxFiles: 29}, "more than 29 folders"},
		{"bytes that were announced", item(t, s.URL+"/f", "f"), worker.Limits{MaxBytes: 4 << 20}, "larger than the limit of 4.0 MiB"},
		{"bytes that nobody announced", item(t, chunked.URL+"/f", "f"), worker.Limits{MaxBytes: 4 << 20}, "larger than the limit"},
		{"bytes of many objects", s3Item(t, s3.URL, "s3://models/m/", "p"), worker.Limits{MaxBytes: 2_000_000}, "larger than the limit"},
		{"bytes of an archive", archived(item(t, s.URL+"/bomb.zip", "h"), plan.Zip), worker.Limits{MaxBytes: 4 << 20}, "4.0 MiB"},
		{"files", s3Item(t, s3.URL, "s3://models/m/", "p"), worker.Limits{MaxFiles: 29}, "more than 29 files"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			req := request(tt.item)
			req.Limits = tt.limits
			dir := t.TempDir()
			_, err := run(t, dir, req)
			if !errors.Is(err, errdefs.ErrResourceExhausted) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("error is %v, want %q", err, tt.says)
			}
			wantNothing(t, dir)
			if left, _ := filepath.Glob(filepath.Join(dir, ".sedna/*")); len(left) > 1 {
				t.Errorf("left over are %v", left)
			}
		})
	}
}

// grower serves files that are small at first, and large from the second
// request on.
func grower(t *testing.T, etag string, fault storagetest.Fault) *storagetest.Server {
	web := storagetest.NewFiles()
	web.PutETag("/f", storagetest.Bytes(5<<20), etag)
	n := 0
	s := storagetest.Serve(t, web, func(int, *http.Request) storagetest.Fault {
		if n++; n == 1 {
			return nil
		}
		return fault
	})
	s.Watch(func(*http.Request) {
		if n == 1 {
			web.PutETag("/f", storagetest.Bytes(20<<20), strings.ReplaceAll(etag, "1", "2"))
		}
	})
	return s
}

func TestAFileThatGrowsUnderTheFetchIsStillHeldAgainstTheLimits(t *testing.T) {
	for name, s := range map[string]*storagetest.Server{
		"with another ETag":         grower(t, `"v1"`, nil),
		"without any":               grower(t, "", nil),
		"without any, and a length": grower(t, "", storagetest.Chunked()),
	} {
		t.Run(name, func(t *testing.T) {
			req := request(item(t, s.URL+"/f", "f"))
			req.Limits.MaxBytes = 10 << 20
			dir := t.TempDir()
			if _, err := run(t, dir, req); !errors.Is(err, errdefs.ErrResourceExhausted) {
				t.Errorf("error is %v", err)
			}
			wantNothing(t, dir)
		})
	}
}

func TestBytesThatAreFetchedAgainCountOnce(t *testing.T) {
	web := storagetest.NewFiles()
	data := storagetest.Bytes(6 << 20)
	web.Put("/f", data)
	web.Put("/f.tar.gz", tarGz(t, map[string]string{"a": string(data)}))
	// Each time it gets further, and begins anew.
	choose := func(n int, _ *http.Request) storagetest.Fault {
		if n <= 4 {
			return storagetest.ChunkedCut(n << 20)
		}
		return storagetest.Chunked()
	}
	for _, i := range []worker.Item{
		item(t, storagetest.Serve(t, web, choose).URL+"/f", "f"),
		archived(item(t, storagetest.Serve(t, web, choose).URL+"/f.tar.gz", "f"), plan.TarGzip),
	} {
		req := request(i)
		req.Limits.MaxBytes = 13 << 20
		if _, err := run(t, t.TempDir(), req); err != nil {
			t.Errorf("%s: %v", i.URL, err)
		}
	}
}

func TestFoldersCostInodesToo(t *testing.T) {
	b := storagetest.NewBucket("models")
	for i := range 20 {
		b.Put(fmt.Sprintf("deep/%02d/a/b/c/d/f", i), nil)
	}
	i := s3Item(t, storagetest.Serve(t, b, nil).URL, "s3://models/deep/", "p")
	req := request(i)
	req.Limits.MaxFiles = 30
	if _, err := run(t, t.TempDir(), req); !errors.Is(err, errdefs.ErrResourceExhausted) || !strings.Contains(err.Error(), "more than 30 folders") {
		t.Errorf("error is %v", err)
	}
}

func TestASecondRunNeedsNoSpaceForWhatIsThere(t *testing.T) {
	t.Run("in a partial file", func(t *testing.T) {
		dir := smallMemory(t, "20m")
		b := storagetest.NewBucket("models")
		data := storagetest.Bytes(12 << 20)
		b.Put("f", data)
		s := storagetest.Serve(t, b, nil)
		failing, later := true, 0
		s.Set(func(_ int, r *http.Request) storagetest.Fault {
			part := r.Header.Get("Range")
			if !failing || part == "" || strings.HasPrefix(part, "bytes=0-") {
				return nil
			}
			if later++; later == 1 {
				return storagetest.Cut(4 << 20)
			}
			return storagetest.Status(403, "")
		})
		req := request(s3Item(t, s.URL, "s3://models/f", "f"))
		req.Limits.Concurrency = 1
		if _, err := run(t, dir, req); err == nil {
			t.Fatal("the first run works")
		}
		failing = false
		report, err := run(t, dir, req)
		if err != nil {
			t.Fatal(err)
		}
		if report.Fetched > 6<<20 {
			t.Errorf("%d bytes were fetched again", report.Fetched)
		}
		wantFiles(t, dir, map[string]string{"f": string(data)})
	})
	t.Run("in placed files", func(t *testing.T) {
		dir := smallMemory(t, "20m")
		b := storagetest.NewBucket("models")
		for i := range 3 {
			b.Put(fmt.Sprintf("m/%d", i), storagetest.Bytes(4<<20))
		}
		s := storagetest.Serve(t, b, nil)
		for range 2 {
			root, err := os.OpenRoot(dir)
			if err != nil {
				t.Fatal(err)
			}
			_, err = storage.Run(t.Context(), root, request(s3Item(t, s.URL, "s3://models/m/", "m")), func(worker.Event) {}, storage.Shared())
			root.Close()
			if err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestAReservedFileIsNotHeldAgainstTheNextOne(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root to mount a small file system")
	}
	dir := smallDisk(t, 60<<20)
	web := storagetest.NewFiles()
	one, two := storagetest.Bytes(24<<20), storagetest.Bytes(16<<20)
	web.Put("/one", one)
	web.Put("/two", two)
	// Each waits for the other's place on the disk where it matters; a stall
	// gives the other its turn.
	s := storagetest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		wait := 0
		switch later := !strings.HasPrefix(r.Header.Get("Range"), "bytes=0-"); {
		case r.URL.Path == "/two" && !later:
			wait = 1
		case r.URL.Path == "/one" && later:
			wait = 2
		}
		for reserved(dir, int64(len(two))) < wait && r.Context().Err() == nil {
			time.Sleep(time.Millisecond)
		}
		web.ServeHTTP(w, r)
	}), nil)
	req := request(item(t, s.URL+"/one", "one"), item(t, s.URL+"/two", "two"))
	req.Limits.StallTimeout = quick
	if _, err := run(t, dir, req); err != nil {
		t.Fatal(err)
	}
	_ = os.RemoveAll(filepath.Join(dir, "lost+found"))
	wantFiles(t, dir, map[string]string{"one": string(one), "two": string(two)})
}

// reserved counts the partial files that have so many bytes of the disk.
func reserved(dir string, size int64) (n int) {
	names, _ := filepath.Glob(filepath.Join(dir, ".sedna", "*.part"))
	for _, name := range names {
		var st unix.Stat_t
		if unix.Stat(name, &st) == nil && st.Blocks*512 >= size {
			n++
		}
	}
	return n
}

// smallMemory mounts a file system in memory of some size.
func smallMemory(t *testing.T, size string) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root to mount a small file system")
	}
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("can't mount a tmpfs: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, 0) })
	return dir
}

// smallDisk mounts a file system that isn't in memory.
func smallDisk(t *testing.T, size int64) string {
	image := filepath.Join(t.TempDir(), "image")
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(image, size); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, args := range [][]string{{"mkfs.ext4", "-q", "-F", "-m", "0", image}, {"mount", "-o", "loop", image, dir}} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Skipf("can't mount a small disk: %s: %v: %s", args[0], err, out)
		}
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, 0) })
	return dir
}

func TestAFullVolumeIsSaidInWords(t *testing.T) {
	dir := smallMemory(t, "4m")
	web := storagetest.NewFiles()
	web.Put("/f", storagetest.Bytes(5<<20))
	for _, tt := range []struct {
		name   string
		choose storagetest.Choose
		says   string
	}{
		{"known", nil, "5.0 MiB more are needed; free some of it, or raise the emptyDir's sizeLimit"},
		{"unknown", always(storagetest.Chunked()), "more are needed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := storagetest.Serve(t, web, tt.choose)
			_, err := run(t, dir, request(item(t, s.URL+"/f", "f")))
			if !errors.Is(err, errdefs.ErrResourceExhausted) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("error is %v, want %q", err, tt.says)
			}
			wantNothing(t, dir)
			if left, _ := filepath.Glob(filepath.Join(dir, ".sedna/*")); len(left) > 1 {
				t.Errorf("left over are %v", left)
			}
		})
	}
}
