// SPDX-License-Identifier: Apache-2.0

package storagetest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// ConnFault misbehaves below TLS: it takes the nth connection, from 1, and returns
// what the server shall have of it; nil if that is nothing.
type ConnFault func(n int, c net.Conn) net.Conn

// ServeBelow is ServeTLS with a configuration and a fault of its connections, both
// of which may be nil.
func ServeBelow(t testing.TB, good http.Handler, config *tls.Config, fault ConnFault) *Server {
	t.Helper()
	s := &Server{good: good, seen: map[string]int{}}
	s.Server = httptest.NewUnstartedServer(s)
	s.Config.ErrorLog = quiet
	s.TLS = config
	faulty := &faultyListener{Listener: s.Listener, fault: fault}
	s.Listener = faulty
	s.StartTLS()
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

type faultyListener struct {
	net.Listener
	fault ConnFault
	n     int // connections so far; Accept's alone
}

func (l *faultyListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil || l.fault == nil {
			return c, err
		}
		l.n++
		if c = l.fault(l.n, c); c != nil {
			return c, nil
		}
	}
}

// FirstConn has a fault for the first n connections.
func FirstConn(n int, f ConnFault) ConnFault {
	return func(i int, c net.Conn) net.Conn {
		if i <= n {
			return f(i, c)
		}
		return c
	}
}

// HangUp ends a connection once the client has said something.
func HangUp() ConnFault { return Blurt("") }

// Blurt answers whatever the client says with a text that is no TLS, and ends the
// connection.
func Blurt(text string) ConnFault {
	return func(_ int, c net.Conn) net.Conn {
		go func() {
			defer c.Close()
			if _, err := c.Read(make([]byte, 16<<10)); err == nil {
				_, _ = io.WriteString(c, text)
			}
		}()
		return nil
	}
}

// Mute takes a connection and says nothing until the client gives up.
func Mute() ConnFault {
	return func(_ int, c net.Conn) net.Conn {
		go func() {
			defer c.Close()
			_, _ = io.Copy(io.Discard, c)
		}()
		return nil
	}
}

// CutBelow ends a connection without TLS's own end after so many bytes, of which
// the last ones may be any part of a record.
func CutBelow(bytes int) ConnFault {
	return func(_ int, c net.Conn) net.Conn { return &cutConn{Conn: c, left: bytes} }
}

type cutConn struct {
	net.Conn
	left int // its writer's alone
}

func (c *cutConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p[:min(len(p), c.left)])
	if c.left -= n; c.left == 0 && err == nil && n < len(p) {
		c.Close()
		err = net.ErrClosed
	}
	return n, err
}

// Certificate makes one for 127.0.0.1 that its own signature vouches for, and
// returns it and its PEM.
func Certificate(t testing.TB, from, to time.Time) (tls.Certificate, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: from, NotAfter: to, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
