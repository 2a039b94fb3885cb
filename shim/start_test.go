// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	containerdshim "github.com/containerd/containerd/v2/pkg/shim"
)

func TestOnlyADeadSocketIsTaken(t *testing.T) {
	dir := t.TempDir()
	address := "unix://" + filepath.Join(dir, "sock")
	first, err := newSocket(address)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := newSocket(address); !containerdshim.SocketEaddrinuse(err) {
		t.Errorf("a socket that is in use: %v", err)
	}
	_ = first.Close()
	if _, err := os.Stat(filepath.Join(dir, "sock")); err != nil {
		t.Errorf("closing it removed it, though another process may have it: %v", err)
	}
	second, err := newSocket(address)
	if err != nil {
		t.Fatalf("a dead shim's socket stays: %v", err)
	}
	defer second.Close()
	conn, err := net.Dial("unix", filepath.Join(dir, "sock"))
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
}
