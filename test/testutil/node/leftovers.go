// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil/isolate"
)

// leftoverTimeout is how long a shim has to go after containerd has said that
// the pod is removed.
const leftoverTimeout = 5 * time.Second

// runscNetns is a namespace that runsc makes once for all sandboxes of a node
// and keeps, gvisor runsc/sandbox/sandbox.go:nullNetns.
const runscNetns = "null-netns"

// baseline is the node before its first pod.
type baseline struct {
	mounts  map[string]bool
	links   map[string]bool
	cgroups map[string]bool
}

func takeBaseline() (baseline, error) {
	points, err := mounts()
	if err != nil {
		return baseline{}, err
	}
	b := baseline{mounts: map[string]bool{}, cgroups: cgroups()}
	for _, point := range points {
		b.mounts[point] = true
	}
	b.links, err = links()
	return b, err
}

// CheckLeftovers returns an error that lists what is still there once all pods
// are removed and destroyed: processes, mounts, network namespaces and
// interfaces, addresses, sockets, bundles, runsc's state, cgroups.
func (n *Node) CheckLeftovers(ctx context.Context) error {
	return Poll(ctx, leftoverTimeout, func(context.Context) error { return n.Leftovers() })
}

// Leftovers is CheckLeftovers without patience.
func (n *Node) Leftovers() error {
	left, err := n.leftovers()
	if err != nil {
		return err
	}
	if len(left) > 0 {
		return errors.New("left over:\n  " + strings.Join(left, "\n  "))
	}
	return nil
}

func (n *Node) leftovers() ([]string, error) {
	left, err := n.strangers()
	if err != nil {
		return nil, err
	}
	for what, dir := range map[string]string{
		"shim socket":       ShimSockets,
		"network namespace": "/run/netns",
		"bundle":            filepath.Join(StateDir, "io.containerd.runtime.v2.task/k8s.io"),
		"runsc state":       RunscState,
		"pod volumes":       filepath.Join(KubeletRoot, "pods"),
		"run files":         "/run/sedna/pods",
		"running download":  "/run/sedna/downloads",
	} {
		for _, name := range Entries(dir) {
			if name == runscNetns {
				continue
			}
			left = append(left, fmt.Sprintf("%s %s", what, filepath.Join(dir, name)))
		}
	}
	for _, network := range n.networks {
		for _, name := range Entries(filepath.Join(ipamDir, network.Bridge)) {
			if strings.HasPrefix(name, "10.") {
				left = append(left, "address "+name)
			}
		}
	}
	left = append(left, takenSlots()...)
	more, err := n.sinceBaseline()
	return append(left, more...), err
}

// slots is where each download of the node holds the lock of one file, shim
// slots.go:slotsDir.
const slots = "/run/sedna/slots"

// takenSlots are the download slots that somebody holds.
func takenSlots() []string {
	var left []string
	for _, name := range Entries(slots) {
		f, err := os.OpenFile(filepath.Join(slots, name), os.O_RDWR, 0)
		if err != nil {
			left = append(left, err.Error())
			continue
		}
		if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK}); err != nil {
			left = append(left, fmt.Sprintf("download slot %s: %v", f.Name(), err))
		}
		f.Close()
	}
	return left
}

// cgroups are the cgroups of this run, each once and not for every hierarchy.
func cgroups() map[string]bool {
	all := map[string]bool{}
	for _, dir := range isolate.Cgroups(isolate.Cgroup()) {
		if _, below, _ := strings.Cut(dir, isolate.Cgroup()+"/"); below != "" {
			all[below] = true
		}
	}
	return all
}

// sinceBaseline are new mounts, network interfaces and cgroups.
func (n *Node) sinceBaseline() ([]string, error) {
	now, err := takeBaseline()
	if err != nil {
		return nil, err
	}
	var left []string
	for point := range now.mounts {
		if !n.before.mounts[point] && filepath.Base(point) != runscNetns {
			left = append(left, "mount "+point)
		}
	}
	for name := range now.links {
		if !n.before.links[name] {
			left = append(left, "network interface "+name)
		}
	}
	for name := range now.cgroups {
		if !n.before.cgroups[name] {
			left = append(left, "cgroup "+name)
		}
	}
	return left, nil
}

// strangers are the processes that belong neither to the test nor to the node.
func (n *Node) strangers() ([]string, error) {
	all, err := Processes()
	if err != nil {
		return nil, err
	}
	var left []string
	for _, process := range all {
		if process.PID == 1 || process.PID == os.Getpid() || n.helpers[process.PID] {
			continue
		}
		left = append(left, fmt.Sprintf("process %d (%s): %s", process.PID, process.State, process.Command()))
	}
	return left, nil
}
