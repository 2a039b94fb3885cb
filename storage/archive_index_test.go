// SPDX-License-Identifier: Apache-2.0

package storage_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"

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
	tests := []struct {
		name   string
		item   worker.Item
		limits worker.Limits
		says   string
	}{
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

func TestAFullVolumeIsSaidInWords(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root to mount a small file system")
	}
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=4m"); err != nil {
		t.Skipf("can't mount a tmpfs: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, 0) })
	web := storagetest.NewFiles()
	web.Put("/f", storagetest.Bytes(5<<20))
	for _, tt := range []struct {
		name   string
		choose storagetest.Choose
		says   string
	}{
		{"known", nil, "5.0 MiB more are needed; free some of it, or raise the emptyDir's sizeLimit"},
		{"unknown", always(storagetest.Chunked()), "of its 4.0 MiB"},
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
