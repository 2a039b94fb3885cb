// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"crypto/subtle"
	"fmt"
	"io"
	"os"

	"github.com/sedna-io/containerd-shim-sedna/storage/place"
	"github.com/sedna-io/containerd-shim-sedna/storage/worker"
)

// sealName is the file of .sedna that bears the request's Seal.
const sealName = "seal"

// openTree opens a pod's volume. What a container may have put in the place of
// .sedna, or made of it, must not keep the pod from starting.
func openTree(root *os.Root, req *worker.Request) (*place.Tree, error) {
	tree, err := place.Open(root)
	if err == nil || req.Pod.UID == "" {
		return tree, err
	}
	if removed := root.RemoveAll(place.Folder); removed != nil {
		return nil, fmt.Errorf("%w; take it away: %w", err, removed)
	}
	return place.Open(root)
}

// checkSeal empties .sedna unless it bears the request's seal, and seals it:
// everything there may be a container's work, sums and all.
func checkSeal(root *os.Root, tree *place.Tree, seal string) error {
	if seal == "" || bears(tree, seal) {
		return nil
	}
	names, err := tree.Staged()
	if err != nil {
		return fmt.Errorf("look into %s: %w", place.Folder, err)
	}
	for _, name := range names {
		if err := root.RemoveAll(place.Folder + "/" + name); err != nil {
			return fmt.Errorf("empty %s: %w", place.Folder, err)
		}
	}
	f, err := tree.Create(sealName)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.WriteString(seal); err != nil {
		return fmt.Errorf("seal %s: %w", place.Folder, err)
	}
	return nil
}

// dropStrange removes what containers made in .sedna and no run could: folders
// under the names of files would stand in its way for ever.
func dropStrange(root *os.Root, tree *place.Tree) error {
	names, err := tree.Staged()
	if err != nil {
		return fmt.Errorf("look into %s: %w", place.Folder, err)
	}
	for _, name := range names {
		if f, err := tree.Reopen(name); err == nil {
			f.Close()
		} else if err := root.RemoveAll(place.Folder + "/" + name); err != nil {
			return fmt.Errorf("tidy %s: %w", place.Folder, err)
		}
	}
	return nil
}

func bears(tree *place.Tree, seal string) bool {
	f, err := tree.Reopen(sealName)
	if err != nil {
		return false
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, int64(len(seal))+1))
	return err == nil && subtle.ConstantTimeCompare(text, []byte(seal)) == 1
}
