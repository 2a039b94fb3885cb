// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"
)

var keys = []string{"AWS_ACCESS_KEY_ID=user", "AWS_SECRET_ACCESS_KEY=password", "AWS_REGION=us-east-1"}

// BenchmarkFetch races `sedna-storage fetch` with the fastest of its kind, each
// with its own default settings but for the peers' numbers of connections.
// ROUNDS says how many pairs.
func BenchmarkFetch(b *testing.B) {
	ours := build(b)
	dir := scratch(b)
	file(b, filepath.Join(dir, "www/1g"), 1<<30)
	file(b, filepath.Join(dir, "www/256m"), 256<<20)
	plain := nginx(b, filepath.Join(dir, "www"), "")
	slow := nginx(b, filepath.Join(dir, "www"), "limit_rate 16m;")
	far := delayed(b, plain, 40*time.Millisecond)

	fetch := func(args ...string) contender {
		return contender{"sedna-storage", func(d string) []string { return append(append([]string{ours, "fetch"}, args...), d) }, keys}
	}
	aria := func(b *testing.B, url string, args ...string) contender {
		p := program(b, "aria2c", "apt-get install aria2")
		return contender{"aria2c", func(d string) []string {
			return append(append([]string{p, "-q", "--allow-overwrite=true", "--file-allocation=none", "-d", d}, args...), url)
		}, nil}
	}

	b.Run("http-1GiB", func(b *testing.B) {
		curl := program(b, "curl", "apt-get install curl")
		url := "http://" + plain + "/1g"
		race(b, dir, fetch(url), contender{"curl", func(d string) []string {
			return []string{curl, "-sS", "-o", filepath.Join(d, "1g"), url}
		}, nil}, 0.45)
	})
	b.Run("http-1GiB-bare", func(b *testing.B) {
		url, bare := "http://"+plain+"/1g", buildAt(b, "./bare")
		race(b, dir, fetch(url), contender{"bare", func(d string) []string { return []string{bare, url, filepath.Join(d, "1g")} }, nil}, 1.15)
	})
	b.Run("http-256MiB-16MBps-per-connection", func(b *testing.B) {
		url := "http://" + slow + "/256m"
		race(b, dir, fetch(url), aria(b, url, "-x16", "-s16", "-k1M"), 0.70)
	})
	b.Run("http-1GiB-40ms", func(b *testing.B) {
		url := "http://" + far + "/1g"
		race(b, dir, fetch(url), aria(b, url, "-x16", "-s16"), 0.80)
	})
	b.Run("http-1GiB-digest", func(b *testing.B) {
		url := "http://" + plain + "/1g"
		sum := program(b, "sha256sum", "it is coreutils'")
		race(b, dir, fetch("--digest", digest(b, filepath.Join(dir, "www/1g")), url), contender{"sha256sum", func(string) []string {
			return []string{sum, filepath.Join(dir, "www/1g")}
		}, nil}, 1.25)
	})
}

// BenchmarkS3 does the same from an S3 service.
func BenchmarkS3(b *testing.B) {
	ours := build(b)
	dir := scratch(b)
	file(b, filepath.Join(dir, "gw/big/1g"), 1<<30)
	for i := range 5000 {
		file(b, filepath.Join(dir, fmt.Sprintf("gw/small/m/o%04d", i)), 16<<10)
	}
	addr := gateway(b, filepath.Join(dir, "gw"))
	s5cmd := program(b, "s5cmd", "test/tools/build s5cmd bin/tools")
	for _, c := range []struct {
		name, url, theirs string
		wanted            float64
	}{
		{"s3-1GiB", "s3://big/1g", "s3://big/1g", 0.80},
		{"s3-5000x16KiB", "s3://small/m/", "s3://small/m/*", 0.70},
	} {
		b.Run(c.name, func(b *testing.B) {
			race(b, dir, contender{"sedna-storage", func(d string) []string {
				return []string{ours, "fetch", "--endpoint", addr, "--s3-usehttps", "0", c.url, d}
			}, keys}, contender{"s5cmd", func(d string) []string {
				return []string{s5cmd, "--endpoint-url", "http://" + addr, "cp", c.theirs, d + "/"}
			}, keys}, c.wanted)
		})
	}
}

func digest(b *testing.B, p string) string {
	b.Helper()
	f, err := os.Open(p)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		b.Fatal(err)
	}
	return "sha256:" + hex.EncodeToString(sum.Sum(nil))
}
