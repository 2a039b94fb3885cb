// SPDX-License-Identifier: Apache-2.0

package storagetest

import (
	"bufio"
	"crypto/md5" //nolint:gosec // it is what S3's ETags are
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The credentials of a Gateway.
const (
	AccessKey = "testuser"
	SecretKey = "testpassword"
)

// Gateway is a running VersityGW: a real S3 service over a folder.
type Gateway struct {
	Addr string // host:port
	Dir  string // bucket BUCKET is the folder Dir/BUCKET
}

// StartGateway runs VersityGW on loopback until the test ends. It skips where
// `make tools` has not built it.
func StartGateway(t testing.TB) *Gateway {
	t.Helper()
	binary := tool(t, "versitygw")
	g := &Gateway{Addr: freeAddr(t), Dir: t.TempDir()}
	cmd := exec.Command(binary, "--port", g.Addr, "--quiet", "posix", g.Dir)
	cmd.Env = []string{"ROOT_ACCESS_KEY=" + AccessKey, "ROOT_SECRET_KEY=" + SecretKey}
	out, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			// read, so that it never blocks
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	waitFor(t, g.Addr)
	return g
}

// Bucket makes a bucket of files by key.
func (g *Gateway) Bucket(t testing.TB, name string, files map[string][]byte) {
	t.Helper()
	for key, data := range files {
		p := filepath.Join(g.Dir, name, filepath.FromSlash(key))
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, data, 0o644); err != nil {
			t.Fatal(err)
		}
		// VersityGW keeps ETags here (versity/versitygw, backend/posix:etagkey).
		sum := md5.Sum(data) //nolint:gosec // it is what S3's ETags are
		if err := unix.Setxattr(p, "user.etag", []byte(`"`+hex.EncodeToString(sum[:])+`"`), 0); err != nil {
			t.Skipf("the test's folder has no extended attributes: %v", err)
		}
	}
}

// Proxy passes requests on to the gateway, with their Host as they came, since
// that is signed.
func (g *Gateway) Proxy() http.Handler {
	p := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: g.Addr})
	p.ErrorLog = quiet
	return p
}

// tool finds a program that `make tools` builds, from any package's folder.
func tool(t testing.TB, name string) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	if tools := os.Getenv("SEDNA_TOOLS"); tools != "" {
		return filepath.Join(tools, name)
	}
	for ; ; dir = filepath.Dir(dir) {
		p := filepath.Join(dir, "bin", "tools", name)
		if _, err := os.Stat(p); err == nil {
			return p
		}
		if dir == filepath.Dir(dir) {
			t.Skipf("%s isn't built; run `make tools`, or set SEDNA_TOOLS to its folder", name)
		}
	}
}

func freeAddr(t testing.TB) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

func waitFor(t testing.TB, addr string) {
	t.Helper()
	err := errors.New("not tried")
	for range 500 {
		var c net.Conn
		if c, err = net.DialTimeout("tcp", addr, time.Second); err == nil {
			c.Close()
			return
		}
		time.Sleep(10 * time.Millisecond) // it has no way to say that it listens
	}
	t.Fatal(fmt.Errorf("the gateway does not start: %w", err))
}
