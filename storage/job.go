// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"sync/atomic"
	"time"

	"github.com/sedna-io/containerd-shim-sedna/storage/source"
	"github.com/sedna-io/containerd-shim-sedna/storage/worker"
)

// itemState is how far one item is.
type itemState struct {
	bytes, fetched, files, attempts atomic.Int64
	began                           time.Time
	elapsed                         atomic.Int64 // ns, until its last file was placed
	digest                          atomic.Pointer[string]
}

// job is one object to fetch for an item.
type job struct {
	index int // of the item
	item  *worker.Item
	state *itemState
	src   source.Source
	obj   source.Object
	path  string // where it lands; for an archive, the folder it's unpacked in
}

// itemPrefix is how many characters of its key an item's files in .sedna begin
// with.
const itemPrefix = 16

// id names the job's files in .sedna, the same in every run.
func (j *job) id() string {
	text, err := json.Marshal([]string{j.obj.Key, j.path})
	if err != nil {
		panic(err) // strings always marshal
	}
	sum := sha256.Sum256(text)
	return itemKey(j.item)[:itemPrefix] + "-" + hex.EncodeToString(sum[:16])
}

const (
	dataEnding = ".part"
	logEnding  = ".log"
)

func (j *job) dataName() string { return j.id() + dataEnding }
func (j *job) logName() string  { return j.id() + logEnding }

// sum is the digest of the item's one file, if it was checked.
func (s *itemState) sum() string {
	if d := s.digest.Load(); d != nil {
		return *d
	}
	return ""
}

// placed notes that one more of the item's files stands at its place.
func (j *job) placed() {
	j.state.files.Add(1)
	j.state.elapsed.Store(int64(time.Since(j.state.began)))
}
