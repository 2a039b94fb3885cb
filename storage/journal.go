// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"bufio"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/sedna-io/containerd-shim-sedna/storage/place"
)

// The journal remembers what was placed, in .sedna/journal, so that a second
// run for the same request need not fetch it again. Each line is a CRC-32C in
// eight hex digits, a space, and a record in JSON:
//
//	1a2b3c4d {"request":"HASH","boot":"ID"}
//	5e6f7a8b {"path":"b/m/file","size":42,"mtime":1,"inode":7,"validator":"\"abc\""}
//	9c0d1e2f {"synced":true}
//	3a4b5c6d {"report":{...}}
//
// What stands before "synced" outlives a power loss, the rest only the
// process: another boot doesn't trust it. "report" is the finished marker. A
// torn line ends the reading.
const journalName = "journal"

type record struct {
	Request   string   `json:"request,omitempty"`
	Boot      string   `json:"boot,omitempty"`
	Path      string   `json:"path,omitempty"`
	Size      int64    `json:"size,omitempty"`
	MTime     int64    `json:"mtime,omitempty"`
	Inode     uint64   `json:"inode,omitempty"`
	Validator string   `json:"validator,omitempty"`
	Digest    string   `json:"digest,omitempty"`
	Synced    bool     `json:"synced,omitempty"`
	Report    *summary `json:"report,omitempty"`
}

// summary is what a finished request's report is made of again.
type summary struct {
	Items []itemSummary `json:"items"`
}

type itemSummary struct {
	Bytes  int64  `json:"bytes"`
	Files  int64  `json:"files"`
	Digest string `json:"digest,omitempty"`
}

func (r *record) info() place.Info { return place.Info{Size: r.Size, MTime: r.MTime, Inode: r.Inode} }

// reusable says whether the file may be taken for its object's again.
func (r *record) reusable() bool { return r.Validator != "" }

// past is what a journal told.
type past struct {
	files map[string]record // by path: what may be trusted, if it is still so
	done  *summary          // of a finished request
	stale []string          // paths placed for another request
}

// readPast reads the journal of an earlier run. One for another request only
// names what is to be removed.
func readPast(t *place.Tree, request string) *past {
	p := &past{files: map[string]record{}}
	f, err := t.Reopen(journalName)
	if err != nil {
		return p
	}
	defer f.Close()
	records := readRecords(f)
	if len(records) == 0 {
		return p
	}
	if records[0].Request != request {
		for _, r := range records {
			if r.Path != "" {
				p.stale = append(p.stale, r.Path)
			}
		}
		return p
	}
	trusted := len(records)
	if records[0].Boot != bootID() {
		trusted = lastSynced(records)
	}
	for _, r := range records[:trusted] {
		if r.Path != "" {
			p.files[r.Path] = r
		}
		if r.Report != nil {
			p.done = r.Report
		}
	}
	return p
}

func readRecords(f io.Reader) []record {
	var out []record
	lines := bufio.NewReader(f)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return out
		}
		var r record
		text, ok := unseal(line)
		if !ok || json.Unmarshal(text, &r) != nil {
			return out
		}
		out = append(out, r)
	}
}

// lastSynced is how many records were synced to disk.
func lastSynced(records []record) int {
	for i := len(records); i > 0; i-- {
		if records[i-1].Synced || records[i-1].Report != nil {
			return i
		}
	}
	return 0
}

// unchanged says whether the file is still what the record says.
func (p *past) unchanged(t *place.Tree, r record) bool {
	info, err := t.Stat(r.Path)
	return err == nil && info == r.info()
}

// finished says whether all of an earlier run's files are as it left them.
func (p *past) finished(t *place.Tree) bool {
	if p.done == nil {
		return false
	}
	for _, r := range p.files {
		if !p.unchanged(t, r) {
			return false
		}
	}
	return true
}

// journal writes the records of this run.
type journal struct {
	mu sync.Mutex
	f  *os.File // guarded by mu
}

// startJournal begins anew with what is still known.
func startJournal(t *place.Tree, request string, known map[string]record) (*journal, error) {
	f, err := t.Create(journalName)
	if err != nil {
		return nil, err
	}
	j := &journal{f: f}
	text := sealed(record{Request: request, Boot: bootID()})
	for _, r := range known {
		text = append(text, sealed(r)...)
	}
	if _, err := f.Write(text); err != nil {
		f.Close()
		return nil, fmt.Errorf("write the journal: %w", err)
	}
	return j, nil
}

func (j *journal) add(r record) error {
	text := sealed(r)
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, err := j.f.Write(text); err != nil {
		return fmt.Errorf("write the journal: %w", err)
	}
	return nil
}

// finish marks the request as done, for good.
func (j *journal) finish(s summary) error {
	if err := j.add(record{Report: &s}); err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.f.Sync(); err != nil {
		return fmt.Errorf("sync the journal: %w", err)
	}
	return nil
}

func (j *journal) close() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.f.Close()
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func unseal(line []byte) ([]byte, bool) {
	if len(line) < 10 || line[8] != ' ' || line[len(line)-1] != '\n' {
		return nil, false
	}
	text := line[9 : len(line)-1]
	sum, err := strconv.ParseUint(string(line[:8]), 16, 32)
	return text, err == nil && uint32(sum) == crc32.Checksum(text, castagnoli)
}

// bootID names this boot of the machine: what was written and not synced is
// there as long as it lasts.
var bootID = sync.OnceValue(func() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "unknown-" + strconv.Itoa(os.Getpid()) // trust nothing unsynced
	}
	return strings.TrimSpace(string(b))
})
