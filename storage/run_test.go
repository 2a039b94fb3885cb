// SPDX-License-Identifier: Apache-2.0

package storage_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"

	"github.com/sedna-io/containerd-shim-sedna/storage"
	"github.com/sedna-io/containerd-shim-sedna/storage/storagetest"
)

func TestAFileOverHTTPLandsAtItsPath(t *testing.T) {
	data := storagetest.Bytes(3 << 20)
	web := storagetest.NewFiles()
	web.Put("/dir/model.bin", data)
	s := storagetest.Serve(t, web, nil)
	dir := t.TempDir()
	report, err := run(t, dir, request(item(t, s.URL+"/dir/model.bin?sig=secret", "host/dir/model.bin")))
	if err != nil {
		t.Fatal(err)
	}
	wantFiles(t, dir, map[string]string{"host/dir/model.bin": string(data)})
	if report.Files != 1 || report.Bytes != int64(len(data)) || report.Fetched != int64(len(data)) {
		t.Errorf("the report says %+v", report)
	}
}

func TestS3NamesArePathPrefixes(t *testing.T) {
	g := storagetest.StartGateway(t)
	g.Bucket(t, "models", map[string][]byte{
		"m-logs": []byte("logs"), "m2/a": []byte("m2"), "m/a": []byte("a"), "m/b c/ü": []byte("deep"), "m/empty": nil,
		"one/one": []byte("inner"), "model/checkpoints/model.ckpt": []byte("1"), "model/model.pkl": []byte("2"), "model/x/model/y": []byte("3"),
	})
	tests := []struct {
		name, url string
		want      map[string]string
		err       string
	}{
		{"an object is a file", "s3://models/m-logs", map[string]string{"p": "logs"}, ""},
		{"a prefix is a folder", "s3://models/m", map[string]string{"p/a": "a", "p/b c/ü": "deep", "p/empty": ""}, ""},
		{"a trailing slash says so", "s3://models/m/", map[string]string{"p/a": "a", "p/b c/ü": "deep", "p/empty": ""}, ""},
		{"names that repeat keep their place", "s3://models/model", map[string]string{"p/checkpoints/model.ckpt": "1", "p/model.pkl": "2", "p/x/model/y": "3"}, ""},
		{"a part of a name is not found", "s3://models/mo", nil, "no objects"},
		{"an object is no folder", "s3://models/m-logs/", nil, "no objects"},
		{"a wrong bucket is named", "s3://nobucket/m", nil, `no bucket "nobucket"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			_, err := run(t, dir, request(signed(s3Item(t, g.Addr, tt.url, "p"))))
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) || !errors.Is(err, errdefs.ErrNotFound) {
					t.Fatalf("error is %v, want one that says %q", err, tt.err)
				}
				wantNothing(t, dir)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			wantFiles(t, dir, tt.want)
		})
	}
}

func TestS3PagesAndMarkers(t *testing.T) {
	b := storagetest.NewBucket("models")
	b.PageSize = 7
	want := map[string]string{"p/sub/": ""}
	for i := range 100 {
		key := "file" + strings.Repeat("x", i)
		b.Put("m/"+key, []byte(key))
		want["p/"+key] = key
	}
	b.Put("m/", nil)
	b.Put("m/sub/", nil)
	s := storagetest.Serve(t, b, nil)
	dir := t.TempDir()
	if _, err := run(t, dir, request(s3Item(t, s.URL, "s3://models/m", "p"))); err != nil {
		t.Fatal(err)
	}
	wantFiles(t, dir, want)
}

func TestAPrefixOfMarkersOnlyIsNotFound(t *testing.T) {
	b := storagetest.NewBucket("models")
	b.Put("m/", nil)
	b.Put("m/sub/", nil)
	s := storagetest.Serve(t, b, nil)
	_, err := run(t, t.TempDir(), request(s3Item(t, s.URL, "s3://models/m/", "p")))
	if !errors.Is(err, errdefs.ErrNotFound) || !strings.Contains(err.Error(), "no objects") {
		t.Fatalf("error is %v", err)
	}
}

func TestHostileKeysAreRefusedByName(t *testing.T) {
	for _, key := range []string{
		"../../escape", "/abs", `a\..\b`, ".", "..", "a/../b", "a//b", "a/./b", "x/" + strings.Repeat("n", 300), "nul\x00",
	} {
		t.Run(key, func(t *testing.T) {
			b := storagetest.NewBucket("models")
			b.Put("m/"+key, []byte("evil"))
			s := storagetest.Serve(t, b, nil)
			parent := t.TempDir()
			dir := filepath.Join(parent, "a", "b", "volume")
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			_, err := run(t, dir, request(s3Item(t, s.URL, "s3://models/m/", "p")))
			if !errors.Is(err, errdefs.ErrInvalidArgument) && !errors.Is(err, errdefs.ErrDataLoss) {
				t.Fatalf("error is %v", err)
			}
			wantNothing(t, dir)
			for p := range files(t, parent) {
				if !strings.HasPrefix(p, "a/b/volume/.sedna/") {
					t.Errorf("there is %q", p)
				}
			}
		})
	}
}

func TestLinksInTheVolumeAreNotFollowed(t *testing.T) {
	web := storagetest.NewFiles()
	web.Put("/f", []byte("data"))
	s := storagetest.Serve(t, web, nil)
	outside := t.TempDir()
	dir := t.TempDir()
	inside := filepath.Join(dir, "real")
	if err := os.Mkdir(inside, 0o755); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{"out": outside, "in": "real"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
		_, err := run(t, dir, request(item(t, s.URL+"/f", link+"/f")))
		if !errors.Is(err, errdefs.ErrAlreadyExists) {
			t.Errorf("through the link to %s: error is %v", to, err)
		}
	}
	if len(files(t, outside)) != 0 || len(files(t, inside)) != 0 {
		t.Error("a file was written through a link")
	}
}

func TestALinkUnderAFinalNameIsReplacedAndNotFollowed(t *testing.T) {
	web := storagetest.NewFiles()
	web.Put("/f", []byte("data"))
	s := storagetest.Serve(t, web, nil)
	dir := t.TempDir()
	victim := filepath.Join(t.TempDir(), "victim")
	if err := os.WriteFile(victim, []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(victim, filepath.Join(dir, "f")); err != nil {
		t.Fatal(err)
	}
	if _, err := run(t, dir, request(item(t, s.URL+"/f", "f"))); err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(victim); string(b) != "mine" {
		t.Error("the link's target was written")
	}
}

func TestAFolderWhereAFileShouldBeIsANamedError(t *testing.T) {
	web := storagetest.NewFiles()
	web.Put("/f", []byte("data"))
	s := storagetest.Serve(t, web, nil)
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "p", "f"), 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := run(t, dir, request(item(t, s.URL+"/f", "p/f")))
	if err == nil || !strings.Contains(err.Error(), `"p/f"`) || !errors.Is(err, errdefs.ErrAlreadyExists) {
		t.Fatalf("error is %v", err)
	}
}

func TestModesFollowOurRulesWhateverTheUmask(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root to give the volume another group")
	}
	b := storagetest.NewBucket("models")
	b.Put("m/sub/f", []byte("data"))
	s := storagetest.Serve(t, b, nil)
	for _, mask := range []int{0, 0o022, 0o077} {
		dir := t.TempDir()
		if err := os.Chown(dir, 0, 2000); err != nil {
			t.Fatal(err)
		}
		if err := unix.Chmod(dir, 0o2775); err != nil {
			t.Fatal(err)
		}
		old := unix.Umask(mask)
		_, err := run(t, dir, request(s3Item(t, s.URL, "s3://models/m/", "p")))
		unix.Umask(old)
		if err != nil {
			t.Fatal(err)
		}
		for p, mode := range map[string]uint32{
			"": unix.S_IFDIR | 0o2775, "p": unix.S_IFDIR | 0o2755, "p/sub": unix.S_IFDIR | 0o2755,
			"p/sub/f": unix.S_IFREG | 0o644, ".sedna": unix.S_IFDIR | 0o2700,
		} {
			var st unix.Stat_t
			if err := unix.Lstat(filepath.Join(dir, p), &st); err != nil {
				t.Fatal(err)
			}
			if st.Mode != mode || st.Gid != 2000 {
				t.Errorf("umask %o: %q has mode %o and group %d, want %o and 2000", mask, p, st.Mode, st.Gid, mode)
			}
		}
	}
}

func TestASecondRunAsksNobody(t *testing.T) {
	b := storagetest.NewBucket("models")
	b.Put("m/a", []byte("a"))
	b.Put("m/b/c", []byte("c"))
	s := storagetest.Serve(t, b, nil)
	dir := t.TempDir()
	req := request(s3Item(t, s.URL, "s3://models/m/", "p"))
	if _, err := run(t, dir, req); err != nil {
		t.Fatal(err)
	}
	before := s.Requests.Load()
	report, err := run(t, dir, req)
	if err != nil {
		t.Fatal(err)
	}
	if s.Requests.Load() != before {
		t.Error("it asked the server again")
	}
	if report.Files != 2 || report.Bytes != 2 || report.Fetched != 0 || report.Items[0].Cache != "found" {
		t.Errorf("the report says %+v", report)
	}

	t.Run("but where the volume is writable", func(t *testing.T) {
		before, writable := s.Requests.Load(), req
		writable.Writable = true
		if _, err := run(t, dir, writable); err != nil {
			t.Fatal(err)
		}
		if s.Requests.Load() == before {
			t.Error("it trusted files that a container could write")
		}
	})
	t.Run("and where a file was changed", func(t *testing.T) {
		if err := os.WriteFile(filepath.Join(dir, "p/a"), []byte("X"), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := run(t, dir, req); err != nil {
			t.Fatal(err)
		}
		wantFiles(t, dir, map[string]string{"p/a": "a", "p/b/c": "c"})
	})
	t.Run("and another request removes what the first placed", func(t *testing.T) {
		if _, err := run(t, dir, request(s3Item(t, s.URL, "s3://models/m/a", "q"))); err != nil {
			t.Fatal(err)
		}
		got := files(t, dir)
		if got["q"] != "a" || got["p/a"] != "" {
			t.Errorf("files are %v", got)
		}
	})
}

func TestRefusalsAreFinalAndSayWhatToDo(t *testing.T) {
	tests := []struct {
		name   string
		status int
		kind   error
		says   string
	}{
		{"not found", http.StatusNotFound, errdefs.ErrNotFound, "404 Not Found"},
		{"gone", http.StatusGone, errdefs.ErrNotFound, "410"},
		{"unauthorized", http.StatusUnauthorized, errdefs.ErrPermissionDenied, "anonymous"},
		{"forbidden", http.StatusForbidden, errdefs.ErrPermissionDenied, "storage.sedna.io/secret"},
		{"bad request", http.StatusBadRequest, errdefs.ErrInvalidArgument, "400"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := storagetest.Serve(t, storagetest.NewFiles(), storagetest.Always(storagetest.Status(tt.status, "")))
			dir := t.TempDir()
			_, err := run(t, dir, request(item(t, s.URL+"/f?sig=CANARY", "f")))
			if !errors.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.says) || !strings.Contains(err.Error(), "mount model") {
				t.Errorf("error is %v, want %q", err, tt.says)
			}
			if strings.Contains(err.Error(), "CANARY") {
				t.Error("the error shows the query")
			}
			if n := s.Requests.Load(); n != 1 {
				t.Errorf("it asked %d times", n)
			}
			wantNothing(t, dir)
		})
	}
}

func TestCancelEndsARunAtOnce(t *testing.T) {
	web := storagetest.NewFiles()
	web.Put("/f", storagetest.Bytes(1<<20))
	s := storagetest.Serve(t, web, storagetest.Always(storagetest.Stall(1000)))
	ctx, cancel := context.WithCancel(t.Context())
	s.Watch(func(*http.Request) { cancel() })
	dir := t.TempDir()
	_, _, err := runContext(ctx, t, dir, request(item(t, s.URL+"/f", "f")))
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("error is %v", err)
	}
	if f := storage.AsFailure(err); f.Kind != "canceled" {
		t.Errorf("the failure is %+v", f)
	}
	wantNothing(t, dir)
}
