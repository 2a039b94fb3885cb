// SPDX-License-Identifier: Apache-2.0

package storage_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"

	"github.com/sedna-io/containerd-shim-sedna/storage/storagetest"
	"github.com/sedna-io/containerd-shim-sedna/storage/worker"
)

// fault is one row of the tables: a server's misbehaviour, and whether the
// right bytes come in the end or which error does.
type fault struct {
	name   string
	choose storagetest.Choose
	digest bool   // the item gives its digest
	err    string // "" means the right bytes
	kind   error
	noETag bool // the faulty reply has none: S3's always do, and that is the error
}

// ranged picks a fault for requests that ask for a range from a later byte.
func ranged(f storagetest.Fault) storagetest.Choose {
	return func(_ int, r *http.Request) storagetest.Fault {
		if s := r.Header.Get("Range"); s != "" && !strings.HasPrefix(s, "bytes=0-") {
			return f
		}
		return nil
	}
}

// get picks a fault for requests that bring an object's data.
func get(choose storagetest.Choose) storagetest.Choose {
	n := 0
	return func(_ int, r *http.Request) storagetest.Fault {
		if r.Method != http.MethodGet || r.URL.Query().Has("list-type") {
			return nil
		}
		n++
		return choose(n, r)
	}
}

var always, first = storagetest.Always, storagetest.First

func faults() []fault {
	return []fault{
		{name: "none"},
		{name: "a stall at the start passes", choose: first(1, storagetest.Silent())},
		{name: "a stall midway passes", choose: first(2, storagetest.Stall(1<<20))},
		{name: "a lasting silence fails", choose: always(storagetest.Silent()), err: "no data came for", kind: errdefs.ErrUnavailable},
		{name: "a lasting drip fails", choose: always(storagetest.Drip(0, 10*time.Millisecond)), err: "no data came for", kind: errdefs.ErrUnavailable},
		{name: "a drip midway passes", choose: first(1, storagetest.Drip(100, 10*time.Millisecond))},
		{name: "a cut connection goes on", choose: first(3, storagetest.Cut(1<<20))},
		{name: "a connection cut at once goes on", choose: first(3, storagetest.Cut(0))},
		{name: "a connection cut each time gets there", choose: func(n int, _ *http.Request) storagetest.Fault {
			if n%2 == 1 {
				return storagetest.Cut(700_000)
			}
			return nil
		}},
		{name: "a lasting cut before the first byte fails", choose: always(storagetest.Cut(0)), err: "in the middle of the file", kind: errdefs.ErrUnavailable},
		{name: "a length that lies fails", choose: always(storagetest.WrongLength(1000)), err: "in the middle of the file", kind: errdefs.ErrUnavailable},
		{name: "a length that lied once passes", choose: first(1, storagetest.WrongLength(1000))},
		{name: "no length and a proper end is fine", choose: always(storagetest.Chunked())},
		{name: "no length and no proper end passes once", choose: first(1, storagetest.ChunkedCut(1<<20))},
		{name: "no length and never a proper end fails", choose: always(storagetest.ChunkedCut(1 << 20)), err: "in the middle of the file", kind: errdefs.ErrUnavailable},
		{name: "an end that is only the connection's fails", choose: always(storagetest.Old(1 << 30)), err: "how long the file is", kind: errdefs.ErrDataLoss, noETag: true},
		{name: "and is fine with a digest", choose: always(storagetest.Old(1 << 30)), digest: true, noETag: true},
		{name: "and a short one is found by the digest", choose: always(storagetest.Old(1 << 20)), digest: true, err: "its digest is sha256:", kind: errdefs.ErrDataLoss, noETag: true},
		{name: "ignored ranges are one stream", choose: always(storagetest.IgnoreRange())},
		{name: "ranges ignored later are one stream", choose: ranged(storagetest.IgnoreRange())},
		{name: "an empty part passes once", choose: first(1, storagetest.ShortPart(0))},
		{name: "a short part is gone on with", choose: first(3, storagetest.ShortPart(100_000))},
		{name: "parts that are always empty fail", choose: always(storagetest.ShortPart(0)), err: "less than the part", kind: errdefs.ErrDataLoss},
		{name: "parts of a byte each fail", choose: always(storagetest.ShortPart(1)), err: "less than the part", kind: errdefs.ErrDataLoss},
		{name: "a shifted part fails", choose: ranged(storagetest.Shifted(512)), err: "sent the part from byte", kind: errdefs.ErrDataLoss},
		{name: "a part shifted once passes", choose: func(n int, r *http.Request) storagetest.Fault {
			if n == 3 {
				return storagetest.Shifted(512)
			}
			return nil
		}},
		{name: "an unlabelled part fails", choose: always(storagetest.Unlabelled()), err: "without saying which part", kind: errdefs.ErrDataLoss},
		{name: "200 with a part's Content-Range fails", choose: ranged(storagetest.RangedOK()), err: "200 with a Content-Range", kind: errdefs.ErrDataLoss},
		{name: "gzip that nobody asked for fails", choose: always(storagetest.Encoded("gzip")), err: "Content-Encoding", kind: errdefs.ErrDataLoss},
		{name: "a redirect loop fails", choose: always(storagetest.Redirect(http.StatusFound, "/loop")), err: "redirects more than 10 times", kind: errdefs.ErrPermissionDenied},
		{name: "a redirect to a file of the node fails", choose: always(storagetest.Redirect(http.StatusFound, "file:///etc/passwd")), err: "redirects to", kind: errdefs.ErrPermissionDenied},
		{name: "a redirect to nowhere fails", choose: always(storagetest.Redirect(http.StatusFound, "http://%zz/CANARY")), err: "can't be read", kind: errdefs.ErrPermissionDenied},
		{name: "429 with Retry-After passes", choose: first(2, storagetest.Status(http.StatusTooManyRequests, "0"))},
		{name: "429 that asks too much fails", choose: always(storagetest.Status(http.StatusTooManyRequests, "86400")), err: "429", kind: errdefs.ErrUnavailable},
		{name: "503 twice passes", choose: first(2, storagetest.Status(http.StatusServiceUnavailable, ""))},
		{name: "a lasting 503 fails", choose: always(storagetest.Status(http.StatusServiceUnavailable, "")), err: "tried 6 times", kind: errdefs.ErrUnavailable},
		{name: "500, 502, 504, 408 and 425 pass", choose: func(n int, _ *http.Request) storagetest.Fault {
			if codes := []int{500, 502, 504, 408, 425}; n <= len(codes) {
				return storagetest.Status(codes[n-1], "")
			}
			return nil
		}},
		{name: "501 is final", choose: always(storagetest.Status(http.StatusNotImplemented, "")), err: "501", kind: errdefs.ErrUnavailable},
		{name: "a web page fails", choose: always(storagetest.Page()), err: "a web page instead", kind: errdefs.ErrDataLoss, noETag: true},
	}
}

const faultSize = 9 << 20

// quick is a stall time that a test can wait for, and a loaded machine may
// exceed: only for rows that are about it.
const quick = 300 * time.Millisecond

func (f *fault) stalls() bool {
	return strings.Contains(f.name, "stall") || strings.Contains(f.name, "silence") || strings.Contains(f.name, "drip")
}

func TestEveryFaultOverHTTPEndsInRightBytesOrANamedError(t *testing.T) {
	data := storagetest.Bytes(faultSize)
	for _, tt := range faults() {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			web := storagetest.NewFiles()
			web.Put("/model.bin", data)
			s := storagetest.Serve(t, web, tt.choose)
			i := item(t, s.URL+"/model.bin?token=CANARY", "d/model.bin")
			tt.judge(t, t.TempDir(), i, data)
		})
	}
}

func (f *fault) judge(t *testing.T, dir string, i worker.Item, data []byte) {
	t.Helper()
	if f.digest {
		i.Digest = storagetest.Digest(data)
	}
	req := request(i)
	if f.stalls() {
		req.Limits.StallTimeout = quick
	}
	report, err := run(t, dir, req)
	if f.err == "" {
		if err != nil {
			t.Fatal(err)
		}
		wantFiles(t, dir, map[string]string{"d/model.bin": string(data)})
		if report.Bytes != int64(len(data)) {
			t.Errorf("the report says %d bytes", report.Bytes)
		}
		return
	}
	if err == nil || !strings.Contains(err.Error(), f.err) || !errors.Is(err, f.kind) {
		t.Errorf("error is %v, want %q", err, f.err)
	}
	if strings.Contains(fmt.Sprint(err), "CANARY") {
		t.Errorf("the error shows a secret: %v", err)
	}
	wantNothing(t, dir)
}

func TestEveryFaultBeforeS3EndsInRightBytesOrANamedError(t *testing.T) {
	data := storagetest.Bytes(faultSize)
	g := storagetest.StartGateway(t)
	g.Bucket(t, "models", map[string][]byte{"model.bin": data})
	for _, tt := range faults() {
		if strings.Contains(tt.name, "redirect") {
			continue // S3's redirects are about regions
		}
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			choose := tt.choose
			if choose != nil {
				choose = get(choose)
			}
			if tt.noETag {
				tt.err, tt.kind = "sent no ETag", errdefs.ErrDataLoss
			}
			s := storagetest.Serve(t, g.Proxy(), choose)
			tt.judge(t, t.TempDir(), signed(s3Item(t, s.URL, "s3://models/model.bin", "d/model.bin")), data)
		})
	}
}

func TestAnObjectThatChangesMidwayIsOneVersion(t *testing.T) {
	old, fresh := storagetest.Bytes(12<<20), storagetest.Bytes(11<<20)
	web := storagetest.NewFiles()
	web.Put("/f.bin", old)
	n := 0
	s := storagetest.Serve(t, web, nil)
	s.Watch(func(*http.Request) {
		if n++; n == 2 {
			web.Put("/f.bin", fresh)
		}
	})
	dir := t.TempDir()
	req := request(item(t, s.URL+"/f.bin", "f"))
	req.Limits.Concurrency = 1
	if _, err := run(t, dir, req); err != nil {
		t.Fatal(err)
	}
	wantFiles(t, dir, map[string]string{"f": string(fresh)})
}

func TestAnObjectThatNeverStopsChangingFails(t *testing.T) {
	data := storagetest.Bytes(12 << 20)
	web := storagetest.NewFiles()
	n := 0
	s := storagetest.Serve(t, web, func(int, *http.Request) storagetest.Fault {
		n++
		return storagetest.ETag(fmt.Sprintf(`"v%d"`, n))
	})
	web.Put("/f.bin", data)
	dir := t.TempDir()
	_, err := run(t, dir, request(item(t, s.URL+"/f.bin", "f")))
	if err == nil || !strings.Contains(err.Error(), "changed at the source") {
		t.Fatalf("error is %v", err)
	}
	wantNothing(t, dir)
}

func TestWeakETagsAreNeverSplitIntoParts(t *testing.T) {
	for _, etag := range []string{"", `W/"weak"`} {
		data := storagetest.Bytes(12 << 20)
		web := storagetest.NewFiles()
		web.PutETag("/f.bin", data, etag)
		s := storagetest.Serve(t, web, nil)
		later := 0
		s.Watch(func(r *http.Request) {
			if v := r.Header.Get("Range"); v != "" && !strings.HasPrefix(v, "bytes=0-") {
				later++
			}
		})
		dir := t.TempDir()
		if _, err := run(t, dir, request(item(t, s.URL+"/f.bin", "f"))); err != nil {
			t.Fatal(err)
		}
		wantFiles(t, dir, map[string]string{"f": string(data)})
		if later > 0 {
			t.Errorf("ETag %q: %d parts were asked for that nothing ties together", etag, later)
		}
	}
}

func TestSmallObjectsOverS3MeetFaultsToo(t *testing.T) {
	for _, tt := range []struct {
		name   string
		choose storagetest.Choose
		err    string
	}{
		{"cut", first(2, storagetest.Cut(10)), ""},
		{"stall", first(2, storagetest.Stall(10)), ""},
		{"another version", first(1, storagetest.ETag(`"other"`)), ""},
		{"503", first(3, storagetest.Status(503, "")), ""},
		{"lasting 503", always(storagetest.Status(503, "")), "tried 6 times"},
		{"forbidden", always(storagetest.Status(403, "")), "403"},
		{"lasting cut", always(storagetest.Cut(10)), "in the middle"},
		{"a web page", always(storagetest.Page()), "no ETag"},
		{"longer than announced", always(storagetest.Longer(10)), "longer than"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := storagetest.NewBucket("models")
			want := map[string]string{}
			for i := range 20 {
				name := fmt.Sprintf("f%02d", i)
				data := storagetest.Bytes(1000 * i)
				b.Put("m/"+name, data)
				want["p/"+name] = string(data)
			}
			s := storagetest.Serve(t, b, func(n int, r *http.Request) storagetest.Fault {
				if r.URL.Query().Has("list-type") || r.Method == http.MethodHead {
					return nil
				}
				return tt.choose(n, r)
			})
			dir := t.TempDir()
			req := request(s3Item(t, s.URL, "s3://models/m/", "p"))
			if tt.name == "stall" {
				req.Limits.StallTimeout = quick
			}
			_, err := run(t, dir, req)
			if tt.err == "" {
				if err != nil {
					t.Fatal(err)
				}
				wantFiles(t, dir, want)
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("error is %v, want %q", err, tt.err)
			}
		})
	}
}
