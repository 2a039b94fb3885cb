// SPDX-License-Identifier: Apache-2.0

package s3

import (
	"encoding/base64"
	"net/http"
	"strings"

	"github.com/sedna-io/containerd-shim-sedna/storage/source"
)

// checksums are those that S3 may keep of an object, the better ones first.
var checksums = []string{"sha256", "crc64nvme", "crc32c", "crc32", "sha1"}

// askForChecksum has the server say an object's checksum, if it has one. With
// a part it would say that of the part, or nothing.
func askForChecksum(r *http.Request) {
	if r.URL.RawQuery == "" && r.Header["Range"] == nil {
		r.Header["X-Amz-Checksum-Mode"] = []string{"ENABLED"}
	}
}

// checksumOf reads a reply's checksum of the whole object. One that is made
// from those of an upload's parts can't be computed without knowing the parts.
func checksumOf(h http.Header) source.Checksum {
	if strings.EqualFold(h.Get("X-Amz-Checksum-Type"), "COMPOSITE") {
		return source.Checksum{}
	}
	for _, name := range checksums {
		value, err := base64.StdEncoding.DecodeString(h.Get("X-Amz-Checksum-" + name))
		c := source.Checksum{Algorithm: name, Value: value}
		if err == nil && len(value) > 0 && len(value) == c.Hash().Size() {
			return c
		}
	}
	return source.Checksum{}
}
