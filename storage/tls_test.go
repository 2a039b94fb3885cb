// SPDX-License-Identifier: Apache-2.0

package storage_test

import (
	"crypto/tls"
	"encoding/pem"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"

	"github.com/sedna-io/containerd-shim-sedna/storage/storagetest"
	"github.com/sedna-io/containerd-shim-sedna/storage/worker"
)

// tlsFault is a row of the table.
type tlsFault struct {
	name   string
	fault  storagetest.ConnFault
	config *tls.Config
	trust  []byte // nil for the server's own certificate
	says   string // "" means the right bytes
	kind   error
}

// Faults below and of TLS end in the right bytes or a named error, over http and
// over s3.
func TestEveryFaultOfTLSEndsInRightBytesOrANamedError(t *testing.T) {
	now := time.Now()
	expired, expiredPEM := storagetest.Certificate(t, now.Add(-48*time.Hour), now.Add(-24*time.Hour))
	early, earlyPEM := storagetest.Certificate(t, now.Add(24*time.Hour), now.Add(48*time.Hour))
	const plain = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
	first := storagetest.FirstConn
	always := func(f storagetest.ConnFault) storagetest.ConnFault { return first(1<<30, f) }
	for _, tt := range []tlsFault{
		{name: "none"},
		{name: "a handshake that is hung up passes", fault: first(2, storagetest.HangUp())},
		{name: "a handshake that is always hung up fails", fault: always(storagetest.HangUp()), says: "closed the connection without an answer", kind: errdefs.ErrUnavailable},
		{name: "a handshake that stalls passes", fault: first(1, storagetest.Mute())},
		{name: "a handshake that always stalls fails", fault: always(storagetest.Mute()), says: "no data came for", kind: errdefs.ErrUnavailable},
		{name: "an answer without TLS fails", fault: always(storagetest.Blurt(plain)), says: "does not speak TLS", kind: errdefs.ErrInvalidArgument},
		{name: "another protocol fails", fault: always(storagetest.Blurt("220 mail.example ESMTP\r\n")), says: "does not speak TLS", kind: errdefs.ErrInvalidArgument},
		{name: "a handshake that is cut passes", fault: first(2, storagetest.CutBelow(200))},
		{name: "a record that is cut is gone on with", fault: first(3, storagetest.CutBelow(1<<20))},
		{name: "a record that is cut each time gets there", fault: always(storagetest.CutBelow(3 << 20))},
		{name: "an expired certificate fails", config: &tls.Config{Certificates: []tls.Certificate{expired}}, trust: expiredPEM, says: "has expired or is not yet valid", kind: errdefs.ErrPermissionDenied},
		{name: "a certificate of tomorrow fails", config: &tls.Config{Certificates: []tls.Certificate{early}}, trust: earlyPEM, says: "has expired or is not yet valid", kind: errdefs.ErrPermissionDenied},
		{name: "an authority that nobody knows fails", trust: expiredPEM, says: "unknown authority", kind: errdefs.ErrPermissionDenied},
		{name: "a version of TLS that is too old fails", config: &tls.Config{MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10}, says: "protocol version", kind: errdefs.ErrPermissionDenied},
	} {
		t.Run(tt.name, func(t *testing.T) {
			data := storagetest.Bytes(faultSize)
			web := storagetest.NewFiles()
			web.Put("/model.bin", data)
			bucket := storagetest.NewBucket("models")
			bucket.Put("model.bin", data)
			for _, good := range []http.Handler{web, bucket} {
				s := storagetest.ServeBelow(t, good, tt.config.Clone(), tt.fault)
				i := item(t, s.URL+"/model.bin?token=CANARY", "d/model.bin")
				if good == http.Handler(bucket) {
					i = s3Item(t, strings.TrimPrefix(s.URL, "https://"), "s3://models/model.bin", "d/model.bin")
					i.S3.Insecure = nil
				}
				tt.judge(t, i, s, data)
			}
		})
	}
}

func (f *tlsFault) judge(t *testing.T, i worker.Item, s *storagetest.Server, data []byte) {
	t.Helper()
	req := request(i)
	if strings.Contains(f.name, "stalls") {
		req.Limits.StallTimeout = quick
	}
	if req.Network.CABundle = f.trust; f.trust == nil {
		req.Network.CABundle = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	}
	dir := t.TempDir()
	_, err := run(t, dir, req)
	if f.says == "" {
		if err != nil {
			t.Fatal(err)
		}
		wantFiles(t, dir, map[string]string{"d/model.bin": string(data)})
		return
	}
	if err == nil || !strings.Contains(err.Error(), f.says) || !errors.Is(err, f.kind) || strings.Contains(err.Error(), "CANARY") {
		t.Errorf("error is %v, want %q", err, f.says)
	}
	wantNothing(t, dir)
}
