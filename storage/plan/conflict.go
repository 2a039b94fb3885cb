// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"path"
)

// findConflicts refuses two downloads of which one would overwrite the other.
// Folders merge; what collides inside of them only the download can know.
func findConflicts(downloads []Download, found *findings) {
	byPath := make(map[string]*Download, len(downloads))
	for i := range downloads {
		d := &downloads[i]
		old, taken := byPath[d.Path]
		if !taken {
			byPath[d.Path] = d
			continue
		}
		if old.isTree() && d.isTree() {
			continue
		}
		found.add(mountKey(d.Mounts[0], "url"), "give one of them another name at its source",
			"%s and %s of the mount %q land at the same path %q", quoteURL(d.URL), quoteURL(old.URL), old.Mounts[0], clip(d.Path, maxShown))
	}
	for i := range downloads {
		d := &downloads[i]
		for dir := path.Dir(d.Path); dir != "."; dir = path.Dir(dir) {
			if above := byPath[dir]; above != nil && above.isFile() {
				found.add(mountKey(d.Mounts[0], "url"), "", "%s would land below %s of the mount %q, which is a file", quoteURL(d.URL), quoteURL(above.URL), above.Mounts[0])
			}
		}
	}
}

// isTree says that the download certainly becomes a folder.
func (d *Download) isTree() bool { return d.Dir || d.Archive != NoArchive }

// isFile says that the download certainly becomes a file. An s3 URL without a
// final slash may be either.
func (d *Download) isFile() bool { return d.URL.Scheme != "s3" && d.Archive == NoArchive }
