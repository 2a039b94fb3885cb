// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"golang.org/x/sys/unix"

	"github.com/sedna-io/containerd-shim-sedna/storage/worker"
)

// Node is where a node keeps records and results.
type Node struct {
	Run   string // of running downloads; gone with the next boot
	State string // of results
}

// DefaultNode is where every shim and every command looks.
func DefaultNode() Node { return Node{Run: "/run/sedna/downloads", State: "/var/lib/sedna"} }

// Running is a download that goes on.
type Running struct {
	Pod     worker.Pod `json:"pod"`
	Sandbox string     `json:"sandbox"`
	Mounts  []string   `json:"mounts"`
	// Process is the shim's; the record means nothing without it.
	Process  Process         `json:"process"`
	Since    time.Time       `json:"since"`
	Updated  time.Time       `json:"updated"`
	Progress worker.Progress `json:"progress"`
	// Limit is what holds it back by the node's configuration, nil for nothing.
	Limit *Limit `json:"limit,omitempty"`
}

// Limit is the node's bandwidth and who shares it.
type Limit struct {
	Bandwidth int64 `json:"bandwidth"` // bytes per second
	Downloads int   `json:"downloads"` // that run now
}

// String implements fmt.Stringer, for people. A share is what each may have if
// all need theirs.
func (l Limit) String() string {
	rate := humanize.IBytes(uint64(max(l.Bandwidth, 0))) + "/s"
	if l.Downloads < 2 {
		return "limited to the node's " + rate
	}
	share := humanize.IBytes(uint64(max(l.Bandwidth, 0) / int64(l.Downloads)))
	return fmt.Sprintf("limited to %s/s of the node's %s, shared by %d downloads", share, rate, l.Downloads)
}

const (
	runningSuffix = ".json"
	// maxRunning bounds a record, bytes.
	maxRunning = 64 << 10
	// abandoned is the age at which a file whose writer is gone is removed by
	// whoever sees it.
	abandoned = time.Minute
)

// Write makes or updates the record of r.Sandbox.
func (n Node) Write(r Running) error {
	name, err := runningName(r.Sandbox)
	if err != nil {
		return err
	}
	data, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode the record of a download: %w", err)
	}
	if err := os.MkdirAll(n.Run, 0o700); err != nil {
		return err
	}
	d, err := openFolder(n.Run, 0)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.replace(name, append(data, '\n'), 0o600)
}

// Remove removes the record of a sandbox, if there is one.
func (n Node) Remove(sandbox string) error {
	name, err := runningName(sandbox)
	if err != nil {
		return err
	}
	d, err := n.openRun()
	if d == nil {
		return err
	}
	defer d.Close()
	return errors.Join(d.remove(name), d.remove("."+name+".tmp"))
}

// openRun opens the folder of records; none is there before the first.
func (n Node) openRun() (*folder, error) {
	d, err := openFolder(n.Run, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return &d, nil
}

func runningName(sandbox string) (string, error) {
	if sandbox == "" || sandbox[0] == '.' || strings.ContainsAny(sandbox, "/\x00") {
		return "", fmt.Errorf("%q can't be the name of a file", sandbox)
	}
	return sandbox + runningSuffix, nil
}

// Downloads lists what runs, the oldest first, and removes the old records of
// processes that are gone. An error tells of records that can't be read; those
// that can are returned with it.
func (n Node) Downloads() ([]Running, error) {
	d, err := n.openRun()
	if d == nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var all []Running
	var errs []error
	for _, name := range names {
		r, err := d.running(name)
		switch {
		case errors.Is(err, fs.ErrNotExist): // it ended meanwhile
		case err != nil:
			errs = append(errs, err)
		case r != nil:
			all = append(all, *r)
		}
	}
	slices.SortFunc(all, func(a, b Running) int {
		if c := a.Since.Compare(b.Since); c != 0 {
			return c
		}
		return strings.Compare(a.Sandbox, b.Sandbox)
	})
	return all, errors.Join(errs...)
}

// TakeDead returns the record of a sandbox whose process is gone, and removes
// it; nil if there is none.
func (n Node) TakeDead(sandbox string) (*Running, error) {
	name, err := runningName(sandbox)
	if err != nil {
		return nil, err
	}
	d, err := n.openRun()
	if d == nil {
		return nil, err
	}
	defer d.Close()
	r, err := d.load(name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !r.Process.gone() {
		return nil, nil
	}
	// One that can't be read is nobody's either.
	return r, errors.Join(err, d.remove(name), d.remove("."+name+".tmp"))
}

// running reads one record, nil if it's none or its process is gone.
func (d folder) running(name string) (*Running, error) {
	if strings.HasPrefix(name, ".") {
		return nil, d.sweep(name)
	}
	if !strings.HasSuffix(name, runningSuffix) {
		return nil, nil
	}
	r, err := d.load(name)
	if err != nil {
		return nil, err
	}
	if !r.Process.gone() {
		return r, nil
	}
	if time.Since(r.Updated) < abandoned {
		return nil, nil // `delete` makes a result of it
	}
	return nil, d.remove(name)
}

func (d folder) load(name string) (*Running, error) {
	data, err := d.read(name, maxRunning)
	if err != nil {
		return nil, err
	}
	var r Running
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("read %s: %w", d.path(name), err)
	}
	return &r, nil
}

// sweep removes a half-written file that nobody writes on.
func (d folder) sweep(name string) error {
	var stat unix.Stat_t
	if err := unix.Fstatat(int(d.Fd()), name, &stat, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return os.NewSyscallError("stat", err)
	}
	if time.Since(time.Unix(stat.Mtim.Unix())) < abandoned {
		return nil
	}
	return d.remove(name)
}
