// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/sedna-io/containerd-shim-sedna/storage/place"
)

// A part log stands beside a partial file and says which of its bytes have
// arrived. It begins with a sealed line, as the journal's, that binds it to one
// version of one object, and goes on with records of 20 bytes, little endian:
//
//	offset  8 bytes
//	length  4 bytes; its highest bit marks a record of poured data
//	CRC-32C of the data in the partial file, 4 bytes
//	CRC-32C of the 16 bytes before, 4 bytes
//
// Nothing is synced here, and nothing needs to be: a resumed run reads what a
// record speaks of and takes it only if its sum is right. A record that
// outlived its data, by a power loss or by someone's hand, proves itself wrong.
//
// Data that the kernel poured into the file never came by here, and reading it
// all again would cost what pouring saves. Its sum is of this boot's name and of
// samples: it tells a hole, a cut, an area of zeros and another boot, and no
// flipped bit. That is enough where such data may be, in a file system in memory:
// it outlives a killed process, page by page as it was written, and nothing else.
type partLog struct {
	mu sync.Mutex
	f  *os.File // guarded by mu
}

const (
	recordSize = 20
	pouredBit  = 1 << 31
	// A sample of sampleSize is looked at in every sampleStep of poured data.
	sampleSize = 4 << 10
	sampleStep = 256 << 10
)

// objectVersion binds a part log to an object. Without a validator it's the digest
// that decides in the end.
type objectVersion struct {
	Key       string `json:"key"`
	Size      int64  `json:"size"`
	Validator string `json:"validator,omitempty"`
	Digest    string `json:"digest,omitempty"`
}

// tied says whether two replies can be told to be of one version.
func (v objectVersion) tied() bool { return v.Size >= 0 && (v.Validator != "" || v.Digest != "") }

// startLog begins an empty log for v.
func startLog(t *place.Tree, name string, v objectVersion) (*partLog, error) {
	f, err := t.Create(name)
	if err != nil {
		return nil, err
	}
	if _, err := f.Write(sealed(v)); err != nil {
		f.Close()
		return nil, fmt.Errorf("write a part log: %w", err)
	}
	return &partLog{f: f}, nil
}

// sealed is v as one line with its sum before it.
func sealed(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // plain fields always marshal
	}
	return fmt.Appendf(nil, "%08x %s\n", crc32.Checksum(text, castagnoli), text)
}

// wrote records that data stands at off. A nil log takes no notes.
func (l *partLog) wrote(off int64, data []byte) error {
	if l == nil {
		return nil
	}
	return l.add(off, uint32(len(data)), crc32.Checksum(data, castagnoli))
}

// poured records that n bytes, which nobody has seen, stand in f at off.
func (l *partLog) poured(f io.ReaderAt, off, n int64) error {
	if l == nil {
		return nil
	}
	sum, err := sampleSum(f, off, n)
	if err != nil {
		return fmt.Errorf("read back a partial file: %w", err)
	}
	return l.add(off, uint32(n)|pouredBit, sum)
}

// sampleSum sums this boot's name and the samples of n bytes of f.
func sampleSum(f io.ReaderAt, off, n int64) (uint32, error) {
	buf := getBuffer()
	defer putBuffer(buf)
	sum := crc32.Checksum([]byte(bootID()), castagnoli)
	for at := int64(0); at < n; at += sampleStep {
		sample := (*buf)[:min(sampleSize, n-at)]
		if _, err := f.ReadAt(sample, off+at); err != nil {
			return 0, err
		}
		sum = crc32.Update(sum, castagnoli, sample)
	}
	return sum, nil
}

func (l *partLog) add(off int64, length, sum uint32) error {
	var r [recordSize]byte
	binary.LittleEndian.PutUint64(r[:], uint64(off))
	binary.LittleEndian.PutUint32(r[8:], length)
	binary.LittleEndian.PutUint32(r[12:], sum)
	binary.LittleEndian.PutUint32(r[16:], crc32.Checksum(r[:16], castagnoli))
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := l.f.Write(r[:]); err != nil {
		return fmt.Errorf("write a part log: %w", err)
	}
	return nil
}

func (l *partLog) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.f.Close()
}

// resumed is a partial file of an earlier run with what of it is right.
type resumed struct {
	version objectVersion
	data    *os.File
	log     *partLog
	have    spans
	solid   spans // known to have no hole
}

// resume looks for a partial file and its log, and reads through what the log
// says; nil where there's none to go on from.
func resume(ctx context.Context, t *place.Tree, dataName, logName, key, digest string) *resumed {
	lf, err := t.Reopen(logName)
	if err != nil {
		return nil
	}
	r := &resumed{log: &partLog{f: lf}}
	lines := bufio.NewReader(lf)
	line, err := lines.ReadBytes('\n')
	text, ok := unseal(line)
	if err != nil || !ok || json.Unmarshal(text, &r.version) != nil ||
		r.version.Key != key || r.version.Digest != digest || !r.version.tied() {
		lf.Close()
		return nil
	}
	if r.data, err = t.Reopen(dataName); err != nil {
		lf.Close()
		return nil
	}
	good := r.prove(ctx, lines)
	if ctx.Err() != nil {
		r.close() // the rest of the log is as good as before
		return nil
	}
	// What follows the last good record would hide all later ones.
	end := int64(len(line)) + good*recordSize
	if lf.Truncate(end) != nil {
		r.close()
		return nil
	}
	if _, err := lf.Seek(end, io.SeekStart); err != nil {
		r.close()
		return nil
	}
	return r
}

// prove takes each record whose data has the right sum, and returns how many
// records are whole.
func (r *resumed) prove(ctx context.Context, records io.Reader) (whole int64) {
	var rec [recordSize]byte
	for {
		if _, err := io.ReadFull(records, rec[:]); err != nil || ctx.Err() != nil {
			return whole
		}
		if binary.LittleEndian.Uint32(rec[16:]) != crc32.Checksum(rec[:16], castagnoli) {
			return whole
		}
		whole++
		off, length := int64(binary.LittleEndian.Uint64(rec[:])), binary.LittleEndian.Uint32(rec[8:])
		n, poured := int64(length&^pouredBit), length&pouredBit != 0
		if off < 0 || n == 0 || n > bufferSize || off > r.version.Size-n {
			continue
		}
		sum, err := r.sum(off, n, poured)
		if err == nil && sum == binary.LittleEndian.Uint32(rec[12:]) {
			r.have.add(span{off, off + n})
		}
	}
}

// sum is what a record of such data must say.
func (r *resumed) sum(off, n int64, poured bool) (uint32, error) {
	if poured {
		if !r.isSolid(off, n) {
			return 0, errHole
		}
		return sampleSum(r.data, off, n)
	}
	buf := getBuffer()
	defer putBuffer(buf)
	data := (*buf)[:n]
	if _, err := r.data.ReadAt(data, off); err != nil {
		return 0, err
	}
	return crc32.Checksum(data, castagnoli), nil
}

// isSolid says that a span has no hole. A tmpfs looks for one page by page up to
// the next, so each stretch is walked only once: with a record for every few
// pages a large file took longer than its pod had time.
func (r *resumed) isSolid(off, n int64) bool {
	for _, s := range r.solid {
		if s.off <= off && off+n <= s.end {
			return true
		}
	}
	hole, err := unix.Seek(int(r.data.Fd()), off, unix.SEEK_HOLE)
	if err != nil || hole < off+n {
		return false
	}
	r.solid.add(span{off, hole})
	return true
}

// errHole says that a file has nothing where a record says it has.
var errHole = errors.New("a hole")

func (r *resumed) close() {
	r.data.Close()
	r.log.close()
}

// bufferSize fits into a core's own cache, and makes system calls rare.
const bufferSize = 512 << 10

var buffers = sync.Pool{New: func() any { b := make([]byte, bufferSize); return &b }}

func getBuffer() *[]byte  { return buffers.Get().(*[]byte) }
func putBuffer(b *[]byte) { buffers.Put(b) }
