// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// nginx serves a folder, with extra lines for the server's block, and returns
// its address.
func nginx(b *testing.B, root, extra string) string {
	b.Helper()
	dir := b.TempDir()
	addr := freeAddr(b)
	conf := fmt.Sprintf(`worker_processes 2; daemon off; pid %[1]s/pid; error_log %[1]s/error.log;
events { worker_connections 1024; }
http { access_log off; sendfile on; tcp_nopush on;
client_body_temp_path %[1]s/a; proxy_temp_path %[1]s/b; fastcgi_temp_path %[1]s/c; uwsgi_temp_path %[1]s/d; scgi_temp_path %[1]s/e;
server { listen %[2]s; root %[3]s; %[4]s } }
`, dir, addr, root, extra)
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(conf), 0o644); err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(program(b, "nginx", "apt-get install nginx-light"), "-c", file, "-e", filepath.Join(dir, "error.log"))
	if os.Getuid() == 0 {
		cmd.Args = append(cmd.Args, "-g", "user root;") // its workers would be another user's
	}
	start(b, addr, cmd)
	return addr
}

// gateway runs VersityGW over a folder with its default settings.
func gateway(b *testing.B, root string) string {
	b.Helper()
	addr := freeAddr(b)
	cmd := exec.Command(program(b, "versitygw", "make tools"), "--port", addr, "--quiet", "posix", root)
	cmd.Env = []string{"ROOT_ACCESS_KEY=user", "ROOT_SECRET_KEY=password"}
	start(b, addr, cmd)
	return addr
}

func start(b *testing.B, addr string, cmd *exec.Cmd) {
	b.Helper()
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = cmd.Process.Signal(unix.SIGTERM)
		_ = cmd.Wait()
	})
	for range 500 {
		if c, err := net.Dial("tcp", addr); err == nil {
			c.Close()
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	b.Fatalf("%s does not listen", cmd.Path)
}

func freeAddr(b *testing.B) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// delayed forwards connections to addr, and delivers what it read after half a
// round trip in either direction. It queues without bound, so that only time
// passes and no bandwidth is lost.
func delayed(b *testing.B, addr string, roundTrip time.Duration) string {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				time.Sleep(roundTrip) // the handshake's
				up, err := net.Dial("tcp", addr)
				if err != nil {
					c.Close()
					return
				}
				go pipe(up, c, roundTrip/2)
				pipe(c, up, roundTrip/2)
			}()
		}
	}()
	return l.Addr().String()
}

type packet struct {
	data []byte
	at   time.Time
}

// pipe copies from in to out, late. The queue holds 64 MiB.
func pipe(out, in net.Conn, late time.Duration) {
	queue := make(chan packet, 512)
	go func() {
		defer close(queue)
		for {
			data := make([]byte, 128<<10)
			n, err := in.Read(data)
			if n > 0 {
				queue <- packet{data[:n], time.Now().Add(late)}
			}
			if err != nil {
				return
			}
		}
	}()
	for p := range queue {
		time.Sleep(time.Until(p.at))
		if _, err := out.Write(p.data); err != nil {
			in.Close()
			for range queue {
				// let the reader end
			}
			break
		}
	}
	if c, ok := out.(*net.TCPConn); ok {
		_ = c.CloseWrite()
	}
}

// file makes a file of n bytes that nothing compresses.
func file(b *testing.B, p string, n int64) {
	b.Helper()
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		b.Fatal(err)
	}
	random, err := os.Open("/dev/urandom")
	if err != nil {
		b.Fatal(err)
	}
	defer random.Close()
	f, err := os.Create(p)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	sum := md5.New()
	if _, err := io.CopyN(io.MultiWriter(f, sum), random, n); err != nil {
		b.Fatal(err)
	}
	// VersityGW keeps ETags here (versity/versitygw, backend/posix:etagkey).
	_ = unix.Setxattr(p, "user.etag", []byte(`"`+hex.EncodeToString(sum.Sum(nil))+`"`), 0)
}
