// SPDX-License-Identifier: Apache-2.0

package web

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"time"
)

// Authority issues certificates; nobody knows it yet.
type Authority struct {
	// PEM is its own certificate.
	PEM []byte

	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// NewAuthority makes one.
func NewAuthority() (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	ca := template(1, "test authority")
	ca.IsCA, ca.BasicConstraintsValid = true, true
	ca.KeyUsage = x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("make authority: %w", err)
	}
	bundle := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return &Authority{bundle, ca, key}, nil
}

// Start is the other Start over HTTPS, with a certificate of the authority for
// the address and the names.
func (a *Authority) Start(address string, names ...string) (*Server, error) {
	listener, err := listen(address)
	if err != nil {
		return nil, err
	}
	certificate, err := a.issue(listener.Addr().(*net.TCPAddr).IP, names)
	if err != nil {
		_ = listener.Close()
		return nil, fmt.Errorf("issue certificate: %w", err)
	}
	s := newServer(listener, "https")
	s.server.TLSConfig = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	s.server.ErrorLog = log.New(io.Discard, "", 0) // refused handshakes are what some tests want
	go func() { _ = s.server.ServeTLS(listener, "", "") }()
	return s, nil
}

func (a *Authority) issue(address net.IP, names []string) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	leaf := template(2, "test server")
	leaf.IPAddresses, leaf.DNSNames = []net.IP{address}, names
	leaf.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	der, err := x509.CreateCertificate(rand.Reader, leaf, a.certificate, &key.PublicKey, a.key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

func template(serial int64, name string) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: big.NewInt(serial),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    now.Add(-time.Hour),
		NotAfter:     now.Add(24 * time.Hour),
		KeyUsage:     x509.KeyUsageDigitalSignature,
	}
}
