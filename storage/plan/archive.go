// SPDX-License-Identifier: Apache-2.0

package plan

import "strings"

// Archive is the format of an archive that is unpacked.
type Archive string

// The archive formats, by the ending of the URL's path.
const (
	NoArchive Archive = ""
	Tar       Archive = "tar"
	TarGzip   Archive = "tar.gz"
	TarZstd   Archive = "tar.zst"
	Zip       Archive = "zip"
)

var archiveEndings = []struct {
	ending string
	format Archive
}{
	{".tar", Tar},
	{".tar.gz", TarGzip},
	{".tgz", TarGzip},
	{".tar.zst", TarZstd},
	{".zip", Zip},
}

// ArchiveOf tells the format by the ending of a path, a plain .gz being none.
func ArchiveOf(path string) Archive {
	for _, a := range archiveEndings {
		if strings.HasSuffix(path, a.ending) {
			return a.format
		}
	}
	return NoArchive
}
