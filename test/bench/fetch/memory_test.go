// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"archive/tar"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// BenchmarkMemory fetches what is large or many and reports the most memory
// that the process took.
func BenchmarkMemory(b *testing.B) {
	ours := build(b)
	dir := scratch(b)
	root := filepath.Join(dir, "www")
	file(b, filepath.Join(root, "4g"), 4<<30)
	archive(b, filepath.Join(root, "2g.tar.gz"), 2<<30)
	addr := nginx(b, root, "")
	for _, name := range []string{"4g", "2g.tar.gz"} {
		b.Run(name, func(b *testing.B) {
			r := contender{name, func(d string) []string { return []string{ours, "fetch", "http://" + addr + "/" + name, d} }, nil}.run(b, dir)
			b.ReportMetric(float64(r.rss>>20), "MiB-rss")
			fmt.Printf("%-34s %.2f s, peak %d MiB, wanted 64 MiB\n", b.Name(), r.wall.Seconds(), r.rss>>20)
		})
	}
}

// archive makes a tar.gz of n bytes of content in files of 64 MiB.
func archive(b *testing.B, p string, n int64) {
	b.Helper()
	f, err := os.Create(p)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewWriterLevel(f, gzip.NoCompression)
	if err != nil {
		b.Fatal(err)
	}
	w := tar.NewWriter(z)
	random, err := os.Open("/dev/urandom")
	if err != nil {
		b.Fatal(err)
	}
	defer random.Close()
	const each = 64 << 20
	for i := range n / each {
		if err := w.WriteHeader(&tar.Header{Name: fmt.Sprintf("f%02d", i), Size: each, Mode: 0o644}); err != nil {
			b.Fatal(err)
		}
		if _, err := io.CopyN(w, random, each); err != nil {
			b.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
	if err := z.Close(); err != nil {
		b.Fatal(err)
	}
}
