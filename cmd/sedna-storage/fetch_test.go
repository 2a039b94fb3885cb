// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sedna-io/containerd-shim-sedna/storage/plan"
	"github.com/sedna-io/containerd-shim-sedna/storage/storagetest"
	"github.com/sedna-io/containerd-shim-sedna/storage/worker"
)

// sedna runs the command and returns what it wrote to each stream.
func sedna(ctx context.Context, args ...string) (out, status string, err error) {
	var o, e bytes.Buffer
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(&o)
	root.SetErr(&e)
	err = root.ExecuteContext(ctx)
	return o.String(), e.String(), err
}

func TestFetchPutsFilesByTheirNameAndPrefixesBelow(t *testing.T) {
	var z bytes.Buffer
	w := zip.NewWriter(&z)
	f, _ := w.Create("inner/x")
	_, _ = f.Write([]byte("x"))
	w.Close()
	web := storagetest.NewFiles()
	web.Put("/a/b/model.bin", []byte("model"))
	web.Put("/a/m.zip", z.Bytes())
	b := storagetest.NewBucket("data")
	b.Put("set/1/a", []byte("1a"))
	b.Put("set/b", []byte("b"))
	b.Put("lone", []byte("lone"))
	s, s3 := storagetest.Serve(t, web, nil), storagetest.Serve(t, b, nil)
	for name, tt := range map[string]struct {
		args []string
		want map[string]string
	}{
		"a file":         {[]string{s.URL + "/a/b/model.bin?sig=x"}, map[string]string{"model.bin": "model"}},
		"an archive":     {[]string{s.URL + "/a/m.zip"}, map[string]string{"inner/x": "x"}},
		"it, kept":       {[]string{"--unpack", "never", s.URL + "/a/m.zip"}, map[string]string{"m.zip": z.String()}},
		"a prefix":       {[]string{"s3://data/set"}, map[string]string{"1/a": "1a", "b": "b"}},
		"a prefix/":      {[]string{"s3://data/set/"}, map[string]string{"1/a": "1a", "b": "b"}},
		"an object":      {[]string{"s3://data/lone"}, map[string]string{"lone": "lone"}},
		"some":           {[]string{"--include", "**/a", "s3://data/set"}, map[string]string{"1/a": "1a"}},
		"several":        {[]string{"s3://data/lone", s.URL + "/a/b/model.bin"}, map[string]string{"lone": "lone", "model.bin": "model"}},
		"with a digest":  {[]string{"--digest", storagetest.Digest([]byte("model")), s.URL + "/a/b/model.bin"}, map[string]string{"model.bin": "model"}},
		"a whole bucket": {[]string{"s3://data"}, map[string]string{"set/1/a": "1a", "set/b": "b", "lone": "lone"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "new", "folder")
			args := append([]string{"fetch", "--endpoint", s3.URL}, tt.args...)
			out, _, err := sedna(t.Context(), append(args, dir)...)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(out, "files, ") {
				t.Errorf("it says %q", out)
			}
			for p, data := range tt.want {
				if got, err := os.ReadFile(filepath.Join(dir, p)); err != nil || string(got) != data {
					t.Errorf("%s: %v", p, err)
				}
			}
		})
	}
}

func TestFetchLeavesWhatOthersPutThere(t *testing.T) {
	web := storagetest.NewFiles()
	web.Put("/one", []byte("1"))
	web.Put("/two", []byte("2"))
	s := storagetest.Serve(t, web, nil)
	dir := t.TempDir()
	for _, name := range []string{"one", "two", "one"} {
		if _, _, err := sedna(t.Context(), "fetch", s.URL+"/"+name, dir); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{"one": "1", "two": "2"} {
		if b, _ := os.ReadFile(filepath.Join(dir, name)); string(b) != want {
			t.Errorf("%s holds %q", name, b)
		}
	}
	t.Run("and looks whether the source has changed", func(t *testing.T) {
		web.Put("/one", []byte("changed"))
		if _, _, err := sedna(t.Context(), "fetch", s.URL+"/one", dir); err != nil {
			t.Fatal(err)
		}
		if b, _ := os.ReadFile(filepath.Join(dir, "one")); string(b) != "changed" {
			t.Errorf("it holds %q", b)
		}
	})
}

func TestFetchCalledWrongly(t *testing.T) {
	for _, args := range [][]string{
		{},
		{"https://h/f"},
		{"ftp://h/f", "dir"},
		{"--digest", "md5:1", "https://h/f", "dir"},
		{"--unpack", "some", "https://h/f", "dir"},
		{"--s3-usehttps", "yes", "s3://bbb/f", "dir"},
		{"--concurrency", "0", "https://h/f", "dir"},
		{"--none", "https://h/f", "dir"},
		{"--endpoint", "http://h/path", "s3://bbb/f", "dir"},
		{"--bandwidth", "fast", "https://h/f", "dir"},
		{"--digest", storagetest.Digest(nil), "https://h/f", "https://h/g", "dir"},
	} {
		_, _, err := sedna(t.Context(), append([]string{"fetch"}, args...)...)
		var usage usageError
		if !errors.As(err, &usage) {
			t.Errorf("%q: error is %v", args, err)
		}
	}
}

func TestFetchInJSON(t *testing.T) {
	web := storagetest.NewFiles()
	web.Put("/f", []byte("data"))
	s := storagetest.Serve(t, web, nil)
	for name, says := range map[string]string{"f": `{"report":`, "gone": `{"failure":{"kind":"not_found"`} {
		out, _, err := sedna(t.Context(), "fetch", "--json", s.URL+"/"+name, t.TempDir())
		if (err == nil) != (name == "f") {
			t.Errorf("%s: error is %v", name, err)
		}
		lines := strings.Split(strings.TrimSpace(out), "\n")
		for _, l := range lines {
			if err := json.Unmarshal([]byte(l), new(worker.Event)); err != nil {
				t.Errorf("%q: %v", l, err)
			}
		}
		if !strings.HasPrefix(lines[len(lines)-1], says) {
			t.Errorf("%s ends with %q", name, lines[len(lines)-1])
		}
	}
}

func TestFetchInterruptedSaysHowToGoOn(t *testing.T) {
	web := storagetest.NewFiles()
	web.Put("/f", storagetest.Bytes(1<<20))
	s := storagetest.Serve(t, web, storagetest.Always(storagetest.Stall(1000)))
	ctx, cancel := context.WithCancel(t.Context())
	s.Watch(func(*http.Request) { cancel() })
	_, _, err := sedna(ctx, "fetch", s.URL+"/f", t.TempDir())
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "the same command goes on") {
		t.Errorf("error is %v", err)
	}
}

func TestFetchTakesCredentialsFromWhereTheyAre(t *testing.T) {
	g := storagetest.StartGateway(t)
	g.Bucket(t, "models", map[string][]byte{"f": []byte("data")})
	secret := t.TempDir()
	for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": storagetest.AccessKey, "AWS_SECRET_ACCESS_KEY": storagetest.SecretKey} {
		if err := os.WriteFile(filepath.Join(secret, name), []byte(value+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	args := []string{"fetch", "--endpoint", "http://" + g.Addr, "s3://models/f"}
	if _, _, err := sedna(t.Context(), append(args, t.TempDir())...); err == nil || !strings.Contains(err.Error(), "anonymous") || !strings.Contains(err.Error(), "--secret-dir") {
		t.Errorf("without credentials: %v", err)
	}
	if _, _, err := sedna(t.Context(), append(args, "--secret-dir", secret, t.TempDir())...); err != nil {
		t.Errorf("with --secret-dir: %v", err)
	}
	t.Setenv("AWS_ACCESS_KEY_ID", storagetest.AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", "wrong")
	if _, _, err := sedna(t.Context(), append(args, t.TempDir())...); err == nil || !strings.Contains(err.Error(), "the environment") {
		t.Errorf("with a wrong key: %v", err)
	}
	t.Setenv("AWS_SECRET_ACCESS_KEY", storagetest.SecretKey)
	if _, _, err := sedna(t.Context(), append(args, t.TempDir())...); err != nil {
		t.Errorf("with the environment: %v", err)
	}
}

func TestATokenForHuggingFaceGoesNowhereElse(t *testing.T) {
	t.Setenv("HF_TOKEN", "token")
	for raw, sent := range map[string]bool{
		"https://huggingface.co/m/f": true, "https://cdn-lfs.huggingface.co/f": true, "http://huggingface.co/f": false,
		"https://evil.example/f": false, "https://nothuggingface.co/f": false,
	} {
		u, err := plan.ParseURL(raw)
		if err != nil {
			t.Fatal(err)
		}
		c, err := new(fetchOptions).credentials(u)
		if err != nil || c.BearerToken.IsZero() == sent {
			t.Errorf("%s: sent is %v, %v", raw, !c.BearerToken.IsZero(), err)
		}
	}
}

func TestInitDoesWhatSednasInitializerDoes(t *testing.T) {
	b := storagetest.NewBucket("data")
	b.Put("set/1/a", []byte("1a"))
	b.Put("list.txt", []byte("s3://data/set\n1/a\n"))
	s := storagetest.Serve(t, b, nil)
	t.Setenv("S3_ENDPOINT_URL", s.URL)
	dir := t.TempDir()
	if _, _, err := sedna(t.Context(), "init", "s3://data/set/", dir+"/x", "@s3://data/list.txt", dir+"/y"); err != nil {
		t.Fatal(err)
	}
	for p, want := range map[string]string{"x/1/a": "1a", "y/1/a": "1a", "y/list.txt": "s3://data/set\n1/a\n"} {
		if got, err := os.ReadFile(filepath.Join(dir, p)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", p, got, err)
		}
	}
	var usage usageError
	if _, _, err := sedna(t.Context(), "init", "s3://data/set/"); !errors.As(err, &usage) {
		t.Errorf("error is %v", err)
	}
}
