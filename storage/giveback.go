// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"golang.org/x/sys/unix"

	"github.com/sedna-io/containerd-shim-sedna/storage/place"
)

// giveBack returns to the disk what the follower has read of its partial file,
// for want of room for what is made of it. false says that there is nothing to
// give, or that the file system can't take it.
//
// No later run goes on from such a file: its log goes first. This run has no
// more use for those bytes either, unless the transfer starts over, and then all
// of them come anew.
func (f *follower) giveBack(tree *place.Tree) bool {
	t := f.t
	t.holes.Lock()
	defer t.holes.Unlock()
	const block = 4 << 10 // or it would only be written full of zeros
	end := f.off &^ (block - 1)
	if t.generation() != f.gen || end <= t.given || tree.Discard(t.logName()) != nil {
		return false
	}
	const punch = unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE
	if unix.Fallocate(int(t.file.Fd()), punch, t.given, end-t.given) != nil {
		return false
	}
	t.given = end
	return true
}
