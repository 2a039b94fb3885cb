// SPDX-License-Identifier: Apache-2.0

package storage_test

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"net/http"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/minio/crc64nvme"

	"github.com/sedna-io/containerd-shim-sedna/storage/storagetest"
)

// summed adds a checksum to a good server's replies when it is asked for.
func summed(header, value string) storagetest.Fault {
	return func(w http.ResponseWriter, r *http.Request, good http.Handler) {
		if r.Header.Get("X-Amz-Checksum-Mode") == "ENABLED" {
			w.Header().Set(header, value)
		}
		good.ServeHTTP(w, r)
	}
}

func TestTheServersOwnChecksumIsHeld(t *testing.T) {
	c32c := func(b []byte) string {
		return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli))))
	}
	c64 := func(b []byte) string {
		return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint64(nil, crc64nvme.Checksum(b)))
	}
	for _, size := range []int{1000, 9 << 20} {
		data := storagetest.Bytes(size)
		for _, tt := range []struct {
			name, header, value string
			ok                  bool
		}{
			{"crc32c", "x-amz-checksum-crc32c", c32c(data), true},
			{"crc64nvme", "x-amz-checksum-crc64nvme", c64(data), true},
			{"a wrong crc64nvme", "x-amz-checksum-crc64nvme", c64(data[1:]), false},
			{"one of an upload's parts", "x-amz-checksum-crc32c", c32c(data[1:]) + "-3", true},
			{"none", "x-amz-checksum-crc32c", "???", true},
		} {
			t.Run(tt.name, func(t *testing.T) {
				b := storagetest.NewBucket("models")
				b.Put("m", data)
				s := storagetest.Serve(t, b, storagetest.Always(summed(tt.header, tt.value)))
				dir := t.TempDir()
				_, err := run(t, dir, request(s3Item(t, s.URL, "s3://models/m", "f")))
				if tt.ok {
					if err != nil {
						t.Fatal(err)
					}
					wantFiles(t, dir, map[string]string{"f": string(data)})
					return
				}
				if !errors.Is(err, errdefs.ErrDataLoss) || !strings.Contains(err.Error(), "checksum") {
					t.Errorf("error is %v", err)
				}
				wantNothing(t, dir)
			})
		}
	}
}
