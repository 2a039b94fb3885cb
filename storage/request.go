// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"path"
	"strings"

	"github.com/sedna-io/containerd-shim-sedna/storage/plan"
	"github.com/sedna-io/containerd-shim-sedna/storage/source"
	"github.com/sedna-io/containerd-shim-sedna/storage/source/ranged"
	"github.com/sedna-io/containerd-shim-sedna/storage/source/s3"
	"github.com/sedna-io/containerd-shim-sedna/storage/source/web"
	"github.com/sedna-io/containerd-shim-sedna/storage/worker"
)

// openSource returns where an item comes from.
func openSource(n *ranged.Network, item *worker.Item) (src source.Source, err error) {
	if item.URL.Scheme == "s3" {
		src, err = s3.New(n, item.Download, item.Credentials)
	} else {
		src, err = web.New(n, item.URL, item.Credentials)
	}
	if err == nil && item.Indirect {
		src = &index{Source: src, network: n, item: item}
	}
	return src, err
}

// target is the path in the volume for an object of an item. An item without
// a path, as a person's fetch has, puts a lone file under its own name.
func target(item *worker.Item, o source.Object) string {
	switch {
	case o.Path != "" && item.Indirect:
		// Below the folder that the index file is in.
		return strings.TrimPrefix(path.Join(path.Dir(item.Path), o.Path), "./")
	case o.Path != "" && item.Path != "":
		return item.Path + "/" + o.Path
	case o.Path != "":
		return o.Path
	case item.Path != "":
		return item.Path
	}
	return path.Base(item.URL.Path)
}

// requestKey names a request: equal keys ask for the same bytes at the same
// paths. It is a hash, so nothing of a presigned query can be read from it,
// and passwords, which a hash would not protect, are left out.
func requestKey(items []worker.Item) string {
	h := sha256.New()
	for i := range items {
		_, _ = h.Write([]byte(itemKey(&items[i])))
	}
	return hex.EncodeToString(h.Sum(nil))
}

func itemKey(item *worker.Item) string {
	d := item.Download
	d.Mounts, d.Secret, d.Offline = nil, "", false
	text, err := json.Marshal(struct {
		plan.Download
		Exact    string
		Endpoint string
	}{d, withoutUser(item.URL.Reveal()), item.Credentials.Endpoint})
	if err != nil {
		panic(err) // plain fields always marshal
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

func withoutUser(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	u.User = nil
	return strings.TrimSpace(u.String())
}
