// SPDX-License-Identifier: Apache-2.0

package storagetest

import (
	"crypto/md5" //nolint:gosec // it is what S3's ETags are
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

var quiet = log.New(io.Discard, "", 0)

// Bucket is an S3 service with one bucket that takes any key, hostile ones
// too. It checks no signatures.
type Bucket struct {
	Name     string
	PageSize int
	files    *Files
	keys     map[string]entry
}

type entry struct {
	XMLName xml.Name `xml:"Contents"`
	Key     string
	Size    int
	ETag    string
}

// NewBucket returns an empty bucket.
func NewBucket(name string) *Bucket {
	return &Bucket{Name: name, PageSize: 1000, files: NewFiles(), keys: map[string]entry{}}
}

// Put stores an object. Not while the bucket is in use.
func (b *Bucket) Put(key string, data []byte) {
	sum := md5.Sum(data) //nolint:gosec // see above
	etag := `"` + hex.EncodeToString(sum[:]) + `"`
	b.files.PutETag("/"+b.Name+"/"+key, data, etag)
	b.keys[key] = entry{Key: key, Size: len(data), ETag: etag}
}

// ServeHTTP implements http.Handler.
func (b *Bucket) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	switch {
	case !strings.HasPrefix(r.URL.Path, "/"+b.Name+"/"):
		fail(w, http.StatusNotFound, "NoSuchBucket")
	case query.Get("list-type") == "2":
		b.list(w, query)
	default:
		if _, ok := b.keys[strings.TrimPrefix(r.URL.Path, "/"+b.Name+"/")]; !ok {
			fail(w, http.StatusNotFound, "NoSuchKey")
			return
		}
		b.files.ServeHTTP(w, r)
	}
}

func (b *Bucket) list(w http.ResponseWriter, query url.Values) {
	var keys []string
	for k := range b.keys {
		if strings.HasPrefix(k, query.Get("prefix")) {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	from, _ := strconv.Atoi(query.Get("continuation-token"))
	to := min(from+b.PageSize, len(keys))
	result := struct {
		XMLName               xml.Name `xml:"ListBucketResult"`
		IsTruncated           bool
		NextContinuationToken string `xml:",omitempty"`
		EncodingType          string
		Contents              []entry
	}{EncodingType: "url", IsTruncated: to < len(keys)}
	if result.IsTruncated {
		result.NextContinuationToken = strconv.Itoa(to)
	}
	for _, k := range keys[from:to] {
		e := b.keys[k]
		e.Key = url.QueryEscape(k)
		result.Contents = append(result.Contents, e)
	}
	w.Header().Set("Content-Type", "application/xml")
	_ = xml.NewEncoder(w).Encode(result)
}

func fail(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, "<Error><Code>%s</Code></Error>", code)
}
