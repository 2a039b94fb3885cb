// SPDX-License-Identifier: Apache-2.0

package storage_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/containerd/errdefs"

	"github.com/sedna-io/containerd-shim-sedna/storage/plan"
	"github.com/sedna-io/containerd-shim-sedna/storage/storagetest"
	"github.com/sedna-io/containerd-shim-sedna/storage/worker"
)

// What must stay free on the node is looked at before the first byte.
func TestWhatMustStayFreeStaysFree(t *testing.T) {
	web := storagetest.NewFiles()
	web.Put("/f", storagetest.Bytes(5<<20))
	for name, tt := range map[string]struct {
		limits worker.Limits
		says   []string
	}{
		"bytes in percent":  {worker.Limits{MinFreePercent: 99.99}, []string{" free, and ", "must stay so", "min_free"}},
		"bytes":             {worker.Limits{MinFreeBytes: 1 << 60}, []string{" free, and 1.0 EiB must stay so", "min_free"}},
		"inodes in percent": {worker.Limits{MinFreeInodesPercent: 99.9999}, []string{"inodes free", "min_free_inodes"}},
		"inodes":            {worker.Limits{MinFreeInodes: 1 << 60}, []string{"inodes free", "min_free_inodes"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := storagetest.Serve(t, web, nil)
			req := request(item(t, s.URL+"/f", "f"))
			req.Limits = tt.limits
			dir := t.TempDir()
			_, err := run(t, dir, req)
			if !errors.Is(err, errdefs.ErrResourceExhausted) {
				t.Fatalf("error is %v", err)
			}
			for _, text := range tt.says {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("error is %v, want %q", err, text)
				}
			}
			wantNothing(t, dir)
		})
	}
}

func TestServersWithoutHEADOrWithAWrongOne(t *testing.T) {
	data := storagetest.Bytes(9 << 20)
	web := storagetest.NewFiles()
	web.Put("/f", data)
	bucket := storagetest.NewBucket("models")
	bucket.Put("f", data)
	head := func(f storagetest.Fault) storagetest.Choose {
		return func(_ int, r *http.Request) storagetest.Fault {
			if r.Method == http.MethodHead {
				return f
			}
			return nil
		}
	}
	lie := func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		w.Header().Set("ETag", `"another"`)
		w.Header().Set("Content-Length", "5")
	}
	for name, f := range map[string]storagetest.Fault{
		"refused":        storagetest.Status(http.StatusMethodNotAllowed, ""),
		"not there":      storagetest.Status(http.StatusNotFound, ""),
		"forbidden":      storagetest.Status(http.StatusForbidden, ""),
		"another answer": lie,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := storagetest.Serve(t, web, head(f))
			if _, err := run(t, dir, request(item(t, s.URL+"/f", "f"))); err != nil {
				t.Fatalf("over http: %v", err)
			}
			wantFiles(t, dir, map[string]string{"f": string(data)})
			if name == "not there" || name == "forbidden" {
				return // S3 means it
			}
			dir = t.TempDir()
			s3 := storagetest.Serve(t, bucket, head(f))
			if _, err := run(t, dir, request(s3Item(t, s3.URL, "s3://models/f", "f"))); err != nil {
				t.Fatalf("over s3: %v", err)
			}
			wantFiles(t, dir, map[string]string{"f": string(data)})
		})
	}
}

// Archives are unpacked where a URL names them, and nowhere else: one rule for
// all sources.
func TestArchivesBelowAPrefixAndUnwantedOnesStayAsTheyAre(t *testing.T) {
	gz := tarGz(t, map[string]string{"a": "a"})
	web := storagetest.NewFiles()
	web.Put("/m.tar.gz", gz)
	bucket := storagetest.NewBucket("models")
	bucket.Put("one/m.tar.gz", gz)
	bucket.Put("more/m.tar.gz", gz)
	bucket.Put("more/plain", []byte("x"))
	s, s3 := storagetest.Serve(t, web, nil), storagetest.Serve(t, bucket, nil)
	for name, tt := range map[string]struct {
		item worker.Item
		want map[string]string
	}{
		"over http, never unpacked":            {item(t, s.URL+"/m.tar.gz", "h/m.tar.gz"), map[string]string{"h/m.tar.gz": string(gz)}},
		"over s3, never unpacked":              {s3Item(t, s3.URL, "s3://models/one/m.tar.gz", "h/m.tar.gz"), map[string]string{"h/m.tar.gz": string(gz)}},
		"over s3, unpacked":                    {archived(s3Item(t, s3.URL, "s3://models/one/m.tar.gz", "h"), plan.TarGzip), map[string]string{"h/a": "a"}},
		"a prefix of one archive":              {s3Item(t, s3.URL, "s3://models/one/", "h"), map[string]string{"h/m.tar.gz": string(gz)}},
		"a prefix of an archive and a file":    {s3Item(t, s3.URL, "s3://models/more", "h"), map[string]string{"h/m.tar.gz": string(gz), "h/plain": "x"}},
		"an archive's name that is a prefix's": {},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if tt.want == nil {
				bucket.Put("dir.zip/x", []byte("x"))
				_, err := run(t, dir, request(archived(s3Item(t, s3.URL, "s3://models/dir.zip", "h"), plan.Zip)))
				if !errors.Is(err, errdefs.ErrNotFound) || !strings.Contains(err.Error(), "no such archive, but a folder") {
					t.Errorf("error is %v", err)
				}
				return
			}
			if _, err := run(t, dir, request(tt.item)); err != nil {
				t.Fatal(err)
			}
			wantFiles(t, dir, tt.want)
		})
	}
}

// Many objects behind a slow server come side by side: it answers only when it
// has four requests at once.
func TestManyObjectsAreAskedForAtOnce(t *testing.T) {
	const together, objects = 4, 64
	bucket := storagetest.NewBucket("models")
	want := map[string]string{}
	for i := range objects {
		name := fmt.Sprintf("f%02d", i)
		bucket.Put("m/"+name, []byte(name))
		want["p/"+name] = name
	}
	var mu sync.Mutex
	waiting, enough := 0, make(chan struct{})
	gate := func(w http.ResponseWriter, r *http.Request, good http.Handler) {
		mu.Lock()
		if waiting++; waiting == together {
			close(enough)
		}
		mu.Unlock()
		select {
		case <-enough:
			good.ServeHTTP(w, r)
		case <-r.Context().Done():
		}
	}
	s := storagetest.Serve(t, bucket, get(always(gate)))
	dir := t.TempDir()
	if _, err := run(t, dir, request(s3Item(t, s.URL, "s3://models/m/", "p"))); err != nil {
		t.Fatal(err)
	}
	wantFiles(t, dir, want)
}
