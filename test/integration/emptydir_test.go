// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"math"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/node"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/report"
)

// What kubelet makes of fsGroup: 2000, and of sizeLimit: 16Mi in memory.
const (
	group = 2000
	limit = 16 << 20
)

// throughGofer ends the options of a file system whose files are on the node:
// runsc asks again for each, since others may change them.
const throughGofer = ",cache=remote_revalidating,disable_fifo_open,directfs"

// byHand are the options that make an emptyDir inside look like that.
const byHand = "rw,size=16777216,mode=2777,gid=2000"

// kept says where an emptyDir's files are, by what the node sees of them.
type kept int

const (
	onNode   kept = iota // the files
	onDisk               // one file with all of them
	inMemory             // nothing
)

// emptyDir is an emptyDir that a container mounts at /NAME, and what it must
// be inside: a row of the table in docs/volumes.md.
type emptyDir struct {
	name    string
	memory  bool
	hint    string // its type, "" for none
	options string // of that hint
	auto    bool   // on a node with empty_dir = "auto"
	kept    kept
	mount   string               // options in /proc/mounts; SIZE is that in KiB, throughGofer the end of them
	look    report.Stat          // mode and owner
	size    func(w *world) int64 // of its file system
}

func (v emptyDir) volume() node.Volume {
	volume := node.Volume{Name: v.name, Memory: v.memory, FSGroup: group}
	if v.memory {
		volume.SizeLimit = "16m"
	}
	return volume
}

var (
	asKubeletMadeIt = report.Stat{Mode: "2777", GID: group}
	asRunscMakesIt  = report.Stat{Mode: "1777"}
)

// world is a pod on its node with the first of its containers.
type world struct {
	t   *testing.T
	pod testutil.TestPod
	one testutil.TestContainer
}

func likeTheNode(w *world) int64 {
	var fs unix.Statfs_t
	if err := unix.Statfs(node.KubeletRoot, &fs); err != nil {
		w.t.Fatal(err)
	}
	return int64(fs.Blocks) * fs.Bsize
}

func halfTheMemory(w *world) int64 { return w.one.Memory(w.t) / 2 &^ 4095 }

func unlimited(*world) int64 { return math.MaxInt64 &^ 4095 }

func asLimited(*world) int64 { return limit }

// The rows are in the order in which the test writes to them: those that
// inotify can't tell of come first.
var emptyDirs = []emptyDir{
	{name: "disk", kept: onNode, mount: throughGofer, look: asKubeletMadeIt, size: likeTheNode},
	{name: "memory", memory: true, kept: onNode, mount: throughGofer, look: asKubeletMadeIt, size: asLimited},
	{name: "disk-hint", hint: "bind", kept: onDisk, mount: "rw", look: asRunscMakesIt, size: unlimited},
	{name: "memory-hint", memory: true, hint: "tmpfs", kept: inMemory, mount: "rw", look: asRunscMakesIt, size: halfTheMemory},
	{name: "disk-options", hint: "bind", options: byHand, kept: onDisk, mount: "rw,size=SIZEk,mode=2777,gid=2000", look: asKubeletMadeIt, size: asLimited},
	{name: "memory-options", memory: true, hint: "tmpfs", options: byHand, kept: inMemory, mount: "rw,size=SIZEk,mode=2777,gid=2000", look: asKubeletMadeIt, size: asLimited},
	{name: "disk-auto", auto: true, kept: onDisk, mount: "rw,size=SIZEk,mode=2777,uid=0,gid=2000", look: asKubeletMadeIt, size: likeTheNode},
	{name: "memory-auto", auto: true, memory: true, kept: inMemory, mount: "rw,size=SIZEk,mode=2777,uid=0,gid=2000", look: asKubeletMadeIt, size: asLimited},
}
