// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/containerd/errdefs"

	"github.com/sedna-io/containerd-shim-sedna/storage/plan"
)

// list is a sink that writes down what it is told.
type list struct{ got []string }

func (l *list) Folder(p string) error { l.got = append(l.got, p+"/"); return nil }

func (l *list) File(p string, x bool, r io.Reader) error {
	b, err := io.ReadAll(r)
	mode := ""
	if x {
		mode = "*"
	}
	l.got = append(l.got, fmt.Sprintf("%s%s=%s", p, mode, b))
	return err
}

func (l *list) Symlink(p, target string) error {
	l.got = append(l.got, p+"->"+target)
	return nil
}

func (l *list) Link(p, old string) error { l.got = append(l.got, p+"=>"+old); return nil }

// tarOf makes a tar archive of headers; a regular file's content is its name.
func tarOf(t testing.TB, headers ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		if h.Typeflag == 0 {
			h.Typeflag = tar.TypeReg
		}
		if h.Typeflag == tar.TypeReg {
			h.Size = int64(len(h.Name))
		}
		if h.Mode == 0 {
			h.Mode = 0o600
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			_, _ = w.Write([]byte(h.Name))
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func gzipped(b []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(b)
	w.Close()
	return out.Bytes()
}

func zstded(t testing.TB, b []byte, window int) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil, zstd.WithWindowSize(window), zstd.WithSingleSegment(false))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	return w.EncodeAll(b, nil)
}

type zipEntry struct {
	name, data string
	mode       fs.FileMode
}

func zipOf(t testing.TB, entries ...zipEntry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, e := range entries {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate}
		h.SetMode(e.mode)
		f, err := w.CreateHeader(h)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = f.Write([]byte(e.data))
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestGoodTarsAreUnpackedInEveryForm(t *testing.T) {
	data := tarOf(t,
		tar.Header{Name: "./", Typeflag: tar.TypeDir},
		tar.Header{Name: "./d/", Typeflag: tar.TypeDir, Mode: 0o2700},
		tar.Header{Name: "./d/run", Mode: 0o750, Uid: 1000},
		tar.Header{Name: "late/f"},
		tar.Header{Name: "late/", Typeflag: tar.TypeDir},
		tar.Header{Name: "d/link", Typeflag: tar.TypeSymlink, Linkname: "../late/f"},
		tar.Header{Name: "again", Typeflag: tar.TypeLink, Linkname: "d/run"},
		tar.Header{Name: "name/" + strings.Repeat("long", 50)},
	)
	long := "name/" + strings.Repeat("long", 50)
	want := []string{"d/", "d/run*=./d/run", "late/f=late/f", "late/", "d/link->../late/f", "again=>d/run", long + "=" + long}
	for format, b := range map[plan.Archive][]byte{
		plan.Tar: data, plan.TarGzip: gzipped(data), plan.TarZstd: zstded(t, data, 8<<20),
	} {
		var l list
		if err := Stream(format, bytes.NewReader(b), Limits{}, &l); err != nil {
			t.Fatalf("%s: %v", format, err)
		}
		if !slices.Equal(l.got, want) {
			t.Errorf("%s: got %q, want %q", format, l.got, want)
		}
	}
}

func TestGoodZipsAreUnpackedWithAndWithoutFolders(t *testing.T) {
	for _, entries := range [][]zipEntry{
		{{"d/", "", fs.ModeDir | 0o755}, {"d/f", "data", 0o644}, {"x", "run", 0o755}, {"l", "d/f", fs.ModeSymlink | 0o777}},
		{{"d/f", "data", 0o644}, {"x", "run", 0o755}, {"l", "d/f", fs.ModeSymlink | 0o777}},
	} {
		b := zipOf(t, entries...)
		var l list
		if err := Unzip(bytes.NewReader(b), int64(len(b)), Limits{}, &l); err != nil {
			t.Fatal(err)
		}
		want := []string{"d/", "d/f=data", "x*=run", "l->d/f"}
		if !slices.Equal(l.got, want[len(want)-len(entries):]) {
			t.Errorf("got %q", l.got)
		}
	}
}

func TestBadEntriesAreRefusedByName(t *testing.T) {
	dir := tar.Header{Name: "d", Typeflag: tar.TypeDir}
	tests := []struct {
		name    string
		headers []tar.Header
		says    string
	}{
		{"a parent", []tar.Header{{Name: "../x"}}, `"../x"`},
		{"a parent within", []tar.Header{{Name: "a/../../x"}}, `a part ".."`},
		{"a parent that stays inside", []tar.Header{{Name: "a/../x"}}, `a part ".."`},
		{"an absolute name", []tar.Header{{Name: "/etc/passwd"}}, "absolute"},
		{"an absolute folder", []tar.Header{{Name: "/", Typeflag: tar.TypeDir}}, "absolute"},
		{"the folder of our own", []tar.Header{{Name: ".sedna/journal"}}, "unfinished downloads"},
		{"and behind a dot", []tar.Header{{Name: "./.sedna/journal"}}, "unfinished downloads"},
		{"a character device", []tar.Header{{Name: "tty", Typeflag: tar.TypeChar}}, "device"},
		{"a block device", []tar.Header{{Name: "sda", Typeflag: tar.TypeBlock}}, "device"},
		{"a pipe", []tar.Header{{Name: "p", Typeflag: tar.TypeFifo}}, "device"},
		{"a setuid file", []tar.Header{{Name: "su", Mode: 0o4755}}, "setuid"},
		{"a setgid file", []tar.Header{{Name: "sg", Mode: 0o2755}}, "setuid"},
		{"an absolute link", []tar.Header{{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "/etc"}}, "lead out"},
		{"a link out", []tar.Header{{Name: "l", Typeflag: tar.TypeSymlink, Linkname: ".."}}, "lead out"},
		{"a link out from below", []tar.Header{dir, {Name: "d/l", Typeflag: tar.TypeSymlink, Linkname: "../../x"}}, "lead out"},
		{"a link that turns back", []tar.Header{{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "d/../../x"}}, "lead out"},
		{"a link over another", []tar.Header{{Name: "u", Typeflag: tar.TypeSymlink, Linkname: "."}, {Name: "l", Typeflag: tar.TypeSymlink, Linkname: "u/../x"}}, "lead out"},
		{"an empty link", []tar.Header{{Name: "l", Typeflag: tar.TypeSymlink, Linkname: ""}}, "lead out"},
		{"an entry below a link", []tar.Header{dir, {Name: "l", Typeflag: tar.TypeSymlink, Linkname: "d"}, {Name: "l/x"}}, "no folder"},
		{"an entry below a file", []tar.Header{{Name: "f"}, {Name: "f/x"}}, "no folder"},
		{"a folder over a link", []tar.Header{dir, {Name: "l", Typeflag: tar.TypeSymlink, Linkname: "d"}, {Name: "l/", Typeflag: tar.TypeDir}}, "something else"},
		{"a file over a folder", []tar.Header{dir, {Name: "d"}}, "something else"},
		{"a hard link to what isn't there", []tar.Header{{Name: "h", Typeflag: tar.TypeLink, Linkname: "gone"}}, "no file before it"},
		{"a hard link out", []tar.Header{{Name: "h", Typeflag: tar.TypeLink, Linkname: "../../etc/shadow"}}, "no file before it"},
		{"a hard link to a link", []tar.Header{dir, {Name: "l", Typeflag: tar.TypeSymlink, Linkname: "d"}, {Name: "h", Typeflag: tar.TypeLink, Linkname: "l"}}, "no file before it"},
		{"a deep name", []tar.Header{{Name: strings.Repeat("d/", 120) + "f"}}, "deeper"},
		{"a double slash", []tar.Header{{Name: "a//b"}}, "empty part"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var l list
			err := Stream(plan.Tar, bytes.NewReader(tarOf(t, tt.headers...)), Limits{}, &l)
			if err == nil || !strings.Contains(err.Error(), tt.says) || !errors.Is(err, errdefs.ErrInvalidArgument) {
				t.Errorf("error is %v, want %q", err, tt.says)
			}
		})
	}
}

func TestBadZipEntriesAreRefusedToo(t *testing.T) {
	for _, tt := range []struct {
		name  string
		entry zipEntry
		says  string
	}{
		{"a parent", zipEntry{"../x", "", 0o644}, `a part ".."`},
		{"an absolute name", zipEntry{"/x", "", 0o644}, "absolute"},
		{"a backslash", zipEntry{`a\..\..\x`, "", 0o644}, "backslash"},
		{"a link out", zipEntry{"l", "../x", fs.ModeSymlink | 0o777}, "lead out"},
		{"a device", zipEntry{"d", "", fs.ModeDevice | 0o644}, "device"},
		{"a setuid file", zipEntry{"s", "", fs.ModeSetuid | 0o755}, "setuid"},
	} {
		b := zipOf(t, tt.entry)
		err := Unzip(bytes.NewReader(b), int64(len(b)), Limits{}, &list{})
		if err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: error is %v, want %q", tt.name, err, tt.says)
		}
	}
}

func TestDamagedArchivesAreSaidToBe(t *testing.T) {
	good := tarOf(t, tar.Header{Name: "a"}, tar.Header{Name: "b"})
	zipped := gzipped(good)
	flipped := slices.Clone(zipped)
	flipped[len(flipped)-6] ^= 1 // in the checksum
	squashed := zstded(t, good, 1<<20)
	for name, tt := range map[string]struct {
		format plan.Archive
		data   []byte
	}{
		"an empty file":           {plan.Tar, nil},
		"zeros":                   {plan.Tar, make([]byte, 10240)},
		"text":                    {plan.Tar, []byte(strings.Repeat("not a tar ", 1000))},
		"a tar cut in a header":   {plan.Tar, good[:700]},
		"gzip that is none":       {plan.TarGzip, good},
		"gzip cut":                {plan.TarGzip, zipped[:len(zipped)-10]},
		"gzip without its end":    {plan.TarGzip, zipped[:len(zipped)-1]},
		"gzip of a wrong sum":     {plan.TarGzip, flipped},
		"zstd that is none":       {plan.TarZstd, good},
		"zstd cut":                {plan.TarZstd, squashed[:len(squashed)-2]},
		"zstd of too wide a view": {plan.TarZstd, append([]byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x90}, squashed[6:]...)},
	} {
		err := Stream(tt.format, bytes.NewReader(tt.data), Limits{}, &list{})
		if !errors.Is(err, errdefs.ErrDataLoss) {
			t.Errorf("%s: error is %v", name, err)
		}
	}
	for name, data := range map[string][]byte{"empty": nil, "text": []byte("PK no zip"), "cut": zipOf(t, zipEntry{"a", "b", 0o644})[:40]} {
		if err := Unzip(bytes.NewReader(data), int64(len(data)), Limits{}, &list{}); !errors.Is(err, errdefs.ErrDataLoss) {
			t.Errorf("zip, %s: error is %v", name, err)
		}
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// sinkhole takes files and keeps none.
type sinkhole struct{ list }

func (*sinkhole) File(_ string, _ bool, r io.Reader) error {
	_, err := io.Copy(io.Discard, r)
	return err
}

func TestArchivesAreHeldToLimits(t *testing.T) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	const size = 400 << 20
	if err := w.WriteHeader(&tar.Header{Name: "bomb", Size: size, Mode: 0o644}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.CopyN(w, zeros{}, size); err != nil {
		t.Fatal(err)
	}
	w.Close()
	z.Close()
	for says, limits := range map[string]Limits{
		"times its size":          {},
		"more than 1048576 bytes": {Bytes: 1 << 20},
	} {
		err := Stream(plan.TarGzip, bytes.NewReader(b.Bytes()), limits, &sinkhole{})
		if !errors.Is(err, errdefs.ErrResourceExhausted) || !strings.Contains(err.Error(), says) {
			t.Errorf("error is %v, want %q", err, says)
		}
	}
	many := tarOf(t, tar.Header{Name: "a"}, tar.Header{Name: "b"}, tar.Header{Name: "c"})
	if err := Stream(plan.Tar, bytes.NewReader(many), Limits{Entries: 2}, &list{}); !errors.Is(err, errdefs.ErrResourceExhausted) {
		t.Errorf("error is %v", err)
	}
}

// tableOf makes a zip of nothing but a table of contents with so many entries,
// whose names have that length, and an end that claims another number.
func tableOf(entries, name, claims int) []byte {
	header := make([]byte, 46+name)
	copy(header, "PK\x01\x02")
	binary.LittleEndian.PutUint16(header[28:], uint16(name))
	b := bytes.Repeat(header, entries)
	end := make([]byte, 22)
	copy(end, "PK\x05\x06")
	binary.LittleEndian.PutUint16(end[10:], uint16(claims))
	binary.LittleEndian.PutUint32(end[12:], uint32(len(b)))
	return append(b, end...)
}

// reads counts what is read.
type reads struct {
	r io.ReaderAt
	n int64
}

func (r *reads) ReadAt(p []byte, off int64) (int, error) {
	n, err := r.r.ReadAt(p, off)
	r.n += int64(n)
	return n, err
}

// Package zip keeps the whole table in memory before it hands out an entry.
func TestAZipWithTooManyEntriesIsRefusedBeforeItsTableIsRead(t *testing.T) {
	for _, claims := range []int{0, 3, 1_000_000 % 65536} {
		b := tableOf(1_000_000, 1, claims)
		r := &reads{r: bytes.NewReader(b)}
		err := Unzip(r, int64(len(b)), Limits{Entries: 1000}, &list{})
		if !errors.Is(err, errdefs.ErrResourceExhausted) || !strings.Contains(err.Error(), "more than 1000 entries") {
			t.Errorf("claiming %d: error is %v", claims, err)
		}
		if r.n > 256<<10 {
			t.Errorf("claiming %d: %d bytes of the table were read", claims, r.n)
		}
	}
	b := tableOf(maxDirectory/(46+65535)+1, 65535, 0)
	err := Unzip(bytes.NewReader(b), int64(len(b)), Limits{}, &list{})
	if !errors.Is(err, errdefs.ErrResourceExhausted) || !strings.Contains(err.Error(), "table of contents is larger than 128 MiB") {
		t.Errorf("error is %v", err)
	}
}

func TestAZipMayHaveAsManyEntriesAsAllowed(t *testing.T) {
	var entries []zipEntry
	for i := range 3000 {
		entries = append(entries, zipEntry{fmt.Sprintf("f%d", i), "", 0o644})
	}
	b := zipOf(t, entries...)
	if err := Unzip(bytes.NewReader(b), int64(len(b)), Limits{Entries: 3000}, &sinkhole{}); err != nil {
		t.Error(err)
	}
	if err := Unzip(bytes.NewReader(b), int64(len(b)), Limits{Entries: 2999}, &sinkhole{}); !errors.Is(err, errdefs.ErrResourceExhausted) {
		t.Errorf("one too many: error is %v", err)
	}
}

// picky fails where an archive's reader let something through that it should not.
type picky struct{ t *testing.T }

func (p picky) check(name string) {
	if name == "" || path.IsAbs(name) || path.Clean(name) != name || name == ".." || strings.HasPrefix(name, "../") {
		p.t.Fatalf("the name %q was let through", name)
	}
}

func (p picky) Folder(name string) error { p.check(name); return nil }
func (p picky) File(name string, _ bool, r io.Reader) error {
	p.check(name)
	_, err := io.Copy(io.Discard, io.LimitReader(r, 1<<20))
	return err
}

func (p picky) Symlink(name, target string) error {
	p.check(name)
	if to := path.Join(path.Dir(name), target); path.IsAbs(target) || to == ".." || strings.HasPrefix(to, "../") {
		p.t.Fatalf("the link %q to %q was let through", name, target)
	}
	return nil
}
func (p picky) Link(name, old string) error { p.check(name); p.check(old); return nil }

func FuzzTar(f *testing.F) {
	seed := tarOf(f, tar.Header{Name: "a/", Typeflag: tar.TypeDir}, tar.Header{Name: "a/b"}, tar.Header{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "a/b"})
	f.Add(byte(0), seed)
	f.Add(byte(1), gzipped(seed))
	f.Add(byte(2), zstded(f, seed, 1<<20))
	f.Fuzz(func(t *testing.T, format byte, b []byte) {
		formats := []plan.Archive{plan.Tar, plan.TarGzip, plan.TarZstd}
		_ = Stream(formats[int(format)%len(formats)], bytes.NewReader(b), Limits{Entries: 1000, Bytes: 1 << 22}, picky{t})
	})
}

func FuzzZip(f *testing.F) {
	f.Add(zipOf(f, zipEntry{"a/", "", fs.ModeDir | 0o755}, zipEntry{"a/b", "data", 0o644}, zipEntry{"l", "a/b", fs.ModeSymlink | 0o777}))
	f.Add(tableOf(3, 1, 3))
	f.Add(zipOf(f, zipEntry{"x", "run", 0o755}, zipEntry{"empty", "", 0o644}))
	f.Fuzz(func(t *testing.T, b []byte) {
		_ = Unzip(bytes.NewReader(b), int64(len(b)), Limits{Entries: 1000, Bytes: 1 << 22}, picky{t})
	})
}
