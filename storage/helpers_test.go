// SPDX-License-Identifier: Apache-2.0

package storage_test

import (
	"context"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sedna-io/containerd-shim-sedna/storage"
	"github.com/sedna-io/containerd-shim-sedna/storage/plan"
	"github.com/sedna-io/containerd-shim-sedna/storage/storagetest"
	"github.com/sedna-io/containerd-shim-sedna/storage/worker"
)

// item is a download of raw to path.
func item(t testing.TB, raw, path string) worker.Item {
	t.Helper()
	u, err := plan.ParseURL(raw)
	if err != nil {
		t.Fatal(err)
	}
	return worker.Item{Download: plan.Download{
		Mounts: []string{"model"}, URL: u, Path: path, Archive: plan.NoArchive,
	}}
}

// s3Item is a download from a service without TLS.
func s3Item(t testing.TB, endpoint, raw, path string) worker.Item {
	t.Helper()
	i := item(t, raw, path)
	insecure := true
	i.S3 = plan.S3{Endpoint: strings.TrimPrefix(endpoint, "http://"), Insecure: &insecure}
	i.Dir = strings.HasSuffix(raw, "/")
	return i
}

// signed gives an item the gateway's credentials.
func signed(i worker.Item) worker.Item {
	i.Credentials = plan.Credentials{
		From:      `the pod's volume "keys"`,
		AccessKey: plan.NewSecret(storagetest.AccessKey), SecretKey: plan.NewSecret(storagetest.SecretKey),
	}
	return i
}

// request asks for items.
func request(items ...worker.Item) worker.Request {
	return worker.Request{Items: items, Limits: worker.Limits{Concurrency: 8}}
}

// run fetches a request into dir, and fails the test where it hangs.
func run(t testing.TB, dir string, req worker.Request) (*worker.Report, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	report, _, err := runContext(ctx, t, dir, req)
	if ctx.Err() != nil {
		t.Fatalf("it hangs; its error: %v", err)
	}
	return report, err
}

func runContext(ctx context.Context, t testing.TB, dir string, req worker.Request) (*worker.Report, []worker.Event, error) {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	var mu sync.Mutex
	var events []worker.Event
	report, err := storage.Run(ctx, root, req, func(e worker.Event) {
		mu.Lock()
		defer mu.Unlock()
		events = append(events, e)
	})
	mu.Lock()
	defer mu.Unlock()
	return report, slices.Clone(events), err
}

// files reads the tree below dir, without the volume's own folder: contents by
// path, and "/" behind the names of empty folders.
func files(t testing.TB, dir string) map[string]string {
	t.Helper()
	got := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, p)
		switch {
		case rel == ".sedna":
			return fs.SkipDir
		case rel == ".":
			return nil
		case d.IsDir():
			if entries, err := os.ReadDir(p); err == nil && len(entries) == 0 {
				got[rel+"/"] = ""
			}
			return nil
		}
		b, err := os.ReadFile(p)
		got[rel] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// wantFiles compares the tree with what is wanted, and shows names only.
func wantFiles(t testing.TB, dir string, want map[string]string) {
	t.Helper()
	got := files(t, dir)
	if g, w := slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)); !slices.Equal(g, w) {
		t.Fatalf("files are %q, want %q", g, w)
	}
	for p, data := range want {
		if got[p] != data {
			t.Errorf("%q holds %d other bytes than the %d wanted", p, len(got[p]), len(data))
		}
	}
}

// wantNothing says that a failed fetch left no file under a final name.
func wantNothing(t testing.TB, dir string) {
	t.Helper()
	wantFiles(t, dir, map[string]string{})
}
