// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/containerd/containerd/api/types"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	containerdshim "github.com/containerd/containerd/v2/pkg/shim"
	"golang.org/x/sys/unix"
	gvisorshim "gvisor.dev/gvisor/pkg/shim/v1"

	"github.com/sedna-io/containerd-shim-sedna/internal/version"
	"github.com/sedna-io/containerd-shim-sedna/shim/bundle"
)

// gvisorState is the file in a bundle that gVisor's Create writes first and its
// delete needs: gvisor.dev/gvisor pkg/shim/v1/runsc/state.go:filename.
const gvisorState = "state.json"

// Stop implements containerdshim.Manager: the `delete` command, which cleans up
// what a shim process that died has left. It may run again and again.
func (m Manager) Stop(ctx context.Context, id string) (containerdshim.StopStatus, error) {
	if err := removePod("."); err != nil {
		return containerdshim.StopStatus{}, err
	}
	if err := removeSocket(); err != nil {
		return containerdshim.StopStatus{}, err
	}
	concludeDead(".", id)
	killed := containerdshim.StopStatus{ExitedAt: time.Now(), ExitStatus: 128 + int(unix.SIGKILL)}
	switch _, err := os.Stat(gvisorState); {
	case errors.Is(err, fs.ErrNotExist):
		// The shim died before it handed over: runsc knows nothing of this id.
		return killed, nil
	case err != nil:
		return containerdshim.StopStatus{}, fmt.Errorf("look for gVisor's state: %w", err)
	}
	status, err := gvisorshim.NewShimManager(m.name).Stop(ctx, id)
	if err != nil {
		return status, err
	}
	if err := endStrays(id, 0); err != nil {
		return status, err
	}
	ns, err := namespaces.NamespaceRequired(ctx)
	if err != nil {
		return status, err
	}
	b, err := bundle.Load(".")
	if errors.Is(err, fs.ErrNotExist) {
		return status, nil
	} else if err != nil {
		return status, err
	}
	return status, errors.Join(removeCgroup(b, id), removeLocks(b, ns, id))
}

// removeSocket removes the socket of a shim that died: only an orderly end does
// it otherwise. A container's bundle names the socket of its pod's shim, which
// may well be alive.
func removeSocket() error {
	address, err := containerdshim.ReadAddress(addressFile)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, containerdshim.ErrNoAddress) {
		return nil
	} else if err != nil {
		return fmt.Errorf("read the shim's address: %w", err)
	}
	if containerdshim.CanConnect(address) {
		return nil
	}
	if err := containerdshim.RemoveSocket(address); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove a dead shim's socket: %w", err)
	}
	return nil
}

// Info implements containerdshim.Manager: the features are those of runsc, which
// containerd matches against what a pod asks for.
func (m Manager) Info(ctx context.Context, options io.Reader) (*types.RuntimeInfo, error) {
	info, err := gvisorshim.NewShimManager(m.name).Info(ctx, options)
	if err != nil {
		return nil, err
	}
	info.Version = &types.RuntimeVersion{Version: version.Version}
	return info, nil
}
