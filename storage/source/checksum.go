// SPDX-License-Identifier: Apache-2.0

package source

import (
	"bytes"
	"crypto/sha1" //nolint:gosec // S3 offers it, and it's better than nothing against damage
	"crypto/sha256"
	"hash"
	"hash/crc32"

	"github.com/minio/crc64nvme"
)

// Checksum is what a source says about an object's content. It guards against
// damage on the way, not against a source that lies.
type Checksum struct {
	Algorithm string // "sha256", "crc64nvme", "crc32c", "crc32", "sha1", or "" for none
	Value     []byte
}

// Hash computes the same over content; nil where there's none to compare with.
func (c Checksum) Hash() hash.Hash {
	switch c.Algorithm {
	case "sha256":
		return sha256.New()
	case "crc64nvme":
		return crc64nvme.New()
	case "crc32c":
		return crc32.New(crc32.MakeTable(crc32.Castagnoli))
	case "crc32":
		return crc32.NewIEEE()
	case "sha1":
		return sha1.New() //nolint:gosec // see above
	}
	return nil
}

// Matches says whether h, which Hash returned, has come to this value.
func (c Checksum) Matches(h hash.Hash) bool {
	return h == nil || bytes.Equal(h.Sum(nil), c.Value)
}
