// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"errors"
	"fmt"
	"math"
	"os"
	"sync"

	"github.com/containerd/errdefs"
	"github.com/dustin/go-humanize"
	"golang.org/x/sys/unix"

	"github.com/sedna-io/containerd-shim-sedna/storage/source"
	"github.com/sedna-io/containerd-shim-sedna/storage/worker"
)

const (
	// lookEvery bytes of unknown length, or files, the disk is looked at again.
	lookEvery      = 1 << 20
	lookEveryFiles = 256
)

// space keeps a run within its limits and within what the volume has free.
type space struct {
	root   *os.File
	limits worker.Limits
	memory bool         // the volume is a tmpfs
	left   func() int64 // bytes that are known to come

	mu      sync.Mutex
	total   int64 // bytes announced or come unannounced; guarded by mu
	files   int64 // guarded by mu
	folders int64 // that were made; guarded by mu
	unknown int64 // bytes since the disk was looked at; guarded by mu
}

func newSpace(root *os.File, limits worker.Limits, left func() int64) (*space, error) {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(root.Fd()), &st); err != nil {
		return nil, fmt.Errorf("look at the volume: %w", err)
	}
	return &space{root: root, limits: limits, left: left, memory: st.Type == unix.TMPFS_MAGIC}, nil
}

// announce takes n bytes that will come into account.
func (s *space) announce(n int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.total += n
	if err := s.withinMax(); err != nil {
		return err
	}
	s.unknown += n
	if n < 1<<20 && s.unknown < lookEvery {
		return nil
	}
	s.unknown = 0
	return s.look(s.left() + n)
}

// more takes n bytes into account that nobody announced. Where they find no
// room, relieve may make some; it returns false when it can't any more.
func (s *space) more(n int64, relieve func() bool) error {
	if due, err := s.count(n); err != nil || !due {
		return err
	}
	for {
		err := s.room(n)
		if err == nil || !relieve() {
			return err
		}
	}
}

// room holds n bytes that come besides what is announced against what is free.
func (s *space) room(n int64) error {
	if left := s.left(); left > 0 && n <= math.MaxInt64-left {
		n += left
	}
	return s.look(n)
}

// count adds n bytes and says whether it's time to look at the disk: in memory,
// where nothing is reserved for what was announced, always.
func (s *space) count(n int64) (due bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.total += n
	if err := s.withinMax(); err != nil {
		return false, err
	}
	if s.unknown += n; s.unknown < lookEvery && !s.memory {
		return false, nil
	}
	s.unknown = 0
	return true, nil
}

// less takes back what will not come, or has to come again.
func (s *space) less(bytes, files int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.total -= bytes
	s.files -= files
}

// file takes one more file into account.
func (s *space) file() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files++
	if s.limits.MaxFiles > 0 && s.files > s.limits.MaxFiles {
		return exhausted("there are more than %d files, the limit of one pod", "raise the node's max_files or fetch an archive", s.limits.MaxFiles)
	}
	if s.files%lookEveryFiles == 1 {
		return s.look(s.left())
	}
	return nil
}

// folder takes one more folder into account: it costs an inode, as a file does.
func (s *space) folder() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.folders++
	if err := s.withinFolders(s.folders); err != nil {
		return err
	}
	if s.folders%lookEveryFiles == 1 {
		return s.look(max(s.left(), 0))
	}
	return nil
}

func (s *space) withinFolders(n int64) error {
	if s.limits.MaxFiles > 0 && n > s.limits.MaxFiles {
		return exhausted("there are more than %d folders, the limit of one pod", "raise the node's max_files or fetch less", s.limits.MaxFiles)
	}
	return nil
}

func (s *space) withinMax() error {
	if s.limits.MaxBytes > 0 && s.total > s.limits.MaxBytes {
		return exhausted("the downloads are larger than the limit of %s (at least %s)",
			"raise storage.sedna.io/max-bytes, or the node's max_bytes", size(s.limits.MaxBytes), size(s.total))
	}
	return nil
}

// look compares what is to come with what is free.
func (s *space) look(need int64) error {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(s.root.Fd()), &st); err != nil {
		return fmt.Errorf("look at the volume: %w", err)
	}
	block := st.Bsize
	free, keep := int64(st.Bavail)*block, s.keep(int64(st.Blocks)*block)
	switch {
	case free-keep >= need:
	case need <= 0 && !s.memory:
		return exhausted("the volume has %s free, and %s must stay so", "free some space on the node, or lower its min_free", size(free), size(keep))
	case s.memory:
		return exhausted("the volume is in memory with %s free, and %s more are needed", "free some of it, or raise the emptyDir's sizeLimit", size(free), size(need))
	default:
		return exhausted("the volume has %s free, %s of it must stay so, and %s more are needed",
			"free some space on the node, or lower its min_free", size(free), size(keep), size(need))
	}
	if st.Files == 0 || s.memory {
		return nil // no fixed number of inodes, or none that kubelet watches
	}
	keep = max(s.limits.MinFreeInodes, int64(float64(st.Files)*s.limits.MinFreeInodesPercent/100))
	if int64(st.Ffree) <= keep {
		return exhausted("the volume has %d inodes free, and %d must stay so",
			"free some inodes on the node, or lower its min_free_inodes", int64(st.Ffree), keep)
	}
	return nil
}

// keep is how many bytes must stay free: none of a memory volume, whose file
// system is its own and no concern of kubelet's eviction.
func (s *space) keep(all int64) int64 {
	if s.memory {
		return 0
	}
	return max(s.limits.MinFreeBytes, int64(float64(all)*s.limits.MinFreePercent/100))
}

// explain tells a full volume in words; other errors stay as they are.
func (s *space) explain(err error) error {
	if !isFull(err) {
		return err
	}
	var st unix.Statfs_t
	_ = unix.Fstatfs(int(s.root.Fd()), &st) // else it says zero
	need := "more is"
	if left := s.left(); left > 0 {
		need = size(left) + " more are"
	}
	return exhausted("the volume is full: of its %s there are %s free, and %s needed", "use a larger volume",
		size(int64(st.Blocks)*st.Bsize), size(int64(st.Bavail)*st.Bsize), need)
}

func isFull(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }

func exhausted(why, hint string, args ...any) *source.Error {
	return &source.Error{Kind: errdefs.ErrResourceExhausted, Why: fmt.Sprintf(why, args...), Hint: hint}
}

func size(n int64) string { return humanize.IBytes(uint64(max(n, 0))) }
