// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"testing"

	"github.com/sedna-io/containerd-shim-sedna/storage/place"
)

func FuzzIndex(f *testing.F) {
	f.Add([]byte("# c\ns3://b/base/\na/b\n\nc\n"))
	f.Add([]byte("http://h/x?sig=1\n../a\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		base, keys, err := parseIndex(text)
		if err != nil {
			return
		}
		if (base.web == nil) == (base.s3.Host == "") || len(keys) == 0 {
			t.Fatalf("an index without base or keys was taken: %q", text)
		}
		for _, k := range keys {
			if err := place.CheckPath(k); err != nil {
				t.Fatal(err)
			}
		}
	})
}
