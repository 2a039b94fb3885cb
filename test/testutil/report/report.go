// SPDX-License-Identifier: Apache-2.0

// Package report holds what the workload inside a pod answers: the tests
// decode what the workload encodes.
package report

// File is one entry of a tree.
type File struct {
	Path   string `json:"path"` // relative to the tree's root
	Size   int64  `json:"size"`
	Mode   string `json:"mode"`
	SHA256 string `json:"sha256,omitempty"` // of regular files, in hex
}

// Stat is a path and the file system it is on.
type Stat struct {
	Mode     string `json:"mode"` // octal with the high bits: "2775"
	UID      uint32 `json:"uid"`
	GID      uint32 `json:"gid"`
	Size     int64  `json:"size"`
	FSType   int64  `json:"fsType"` // the magic of statfs(2)
	FSBytes  int64  `json:"fsBytes"`
	FSFree   int64  `json:"fsFree"`
	FSInodes int64  `json:"fsInodes"`
}

// Kernel is what uname(2) says.
type Kernel struct {
	Sysname  string `json:"sysname"`
	Release  string `json:"release"`
	Version  string `json:"version"`
	Hostname string `json:"hostname"`
}
