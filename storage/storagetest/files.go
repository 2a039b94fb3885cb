// SPDX-License-Identifier: Apache-2.0

package storagetest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// Files serves contents by path, with ranges and conditions, and counts.
type Files struct {
	mu    sync.Mutex
	files map[string]file // by path; guarded by mu
}

type file struct {
	data []byte
	etag string
}

// NewFiles returns an empty server of files.
func NewFiles() *Files { return &Files{files: map[string]file{}} }

// Put stores data under a path with a strong ETag made from it.
func (f *Files) Put(path string, data []byte) {
	sum := sha256.Sum256(data)
	f.PutETag(path, data, `"`+hex.EncodeToString(sum[:8])+`"`)
}

// PutETag stores data under a path with the ETag, none if it is "".
func (f *Files) PutETag(path string, data []byte, etag string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.files[path] = file{data, etag}
}

// ServeHTTP implements http.Handler.
func (f *Files) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	file, ok := f.files[r.URL.Path]
	f.mu.Unlock()
	if !ok {
		http.NotFound(w, r)
		return
	}
	if file.etag != "" {
		w.Header().Set("ETag", file.etag)
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(file.data))
}

// Bytes returns n bytes that look like chance and are the same each time.
func Bytes(n int) []byte {
	b := make([]byte, n)
	source := rand.NewChaCha8([32]byte{byte(n), byte(n >> 8), byte(n >> 16)})
	_, _ = source.Read(b)
	return b
}

// Digest is the digest of data as an annotation says it.
func Digest(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}
