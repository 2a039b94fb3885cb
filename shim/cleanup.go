// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"errors"
	"io/fs"
)

// removePod takes back what a sandbox's preparation has made on the node, by
// what lies in its bundle. It may run again and again, in any process, and on
// the bundle of a container, where nothing of ours is.
func removePod(bundle string) error {
	err := removeWorker(bundle)
	rec, loadErr := loadRecord(bundle)
	if errors.Is(loadErr, fs.ErrNotExist) {
		return err
	}
	if loadErr != nil || rec.HostDir == "" {
		return errors.Join(err, loadErr)
	}
	return errors.Join(err, releaseHostPaths(rec.HostDir))
}
