// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sedna-io/containerd-shim-sedna/storage/plan"
	"github.com/sedna-io/containerd-shim-sedna/volumes"
)

// runDir holds what lives as long as pods do. Host paths are mounted here and
// not in a bundle: containerd removes a bundle with all that is in it, and
// would go through a mount that a crash has left.
const runDir = "/run/sedna/pods"

// hostDir is the folder of a pod's host paths.
func hostDir(sandboxID string) string { return filepath.Join(runDir, sandboxID, "host") }

// bindHostPaths mounts the node's folders that the pod asked for where nobody
// can swap them, and records the mounts that its containers get.
func (p *sandbox) bindHostPaths(ctx context.Context) error {
	if len(p.plan.HostPaths) == 0 {
		return nil
	}
	var roots []plan.HostRoot
	for _, h := range p.cfg.HostPaths {
		roots = append(roots, plan.HostRoot{Path: h.Path, Writable: h.Writable, Namespaces: h.Namespaces})
	}
	if err := p.plan.CheckHostPaths(roots, p.pod.Namespace); err != nil {
		p.log.WithError(err).Warn("the pod asked for folders of the node that it may not have")
		return err
	}
	p.record.HostDir = hostDir(p.pod.SandboxID)
	if err := p.record.save(p.bundle.Dir); err != nil { // before there is anything to undo
		return err
	}
	for i, h := range p.plan.HostPaths {
		root, _ := h.Root(roots, p.pod.Namespace)
		m, err := p.bindHostPath(ctx, h, root, filepath.Join(p.record.HostDir, strconv.Itoa(i)))
		if err != nil {
			return fmt.Errorf("host path %s of mount %q: %w", h.Source, h.Mounts[0], err)
		}
		p.record.Inject.HostMounts = append(p.record.Inject.HostMounts, m)
	}
	return nil
}

func (p *sandbox) bindHostPath(ctx context.Context, h plan.HostPath, root plan.HostRoot, target string) (specs.Mount, error) {
	p.touch.now("the node's folder %s", h.Source)
	held, err := volumes.OpenHostPath(root.Path, h.Source)
	if err != nil {
		return specs.Mount{}, err
	}
	defer held.Close()
	if err := volumes.CheckHostFiles(held, h.Files); err != nil {
		return specs.Mount{}, err
	}
	if ctx.Err() != nil { // nobody would undo it
		return specs.Mount{}, context.Cause(ctx)
	}
	writable := h.Writable && root.Writable
	if err := volumes.BindHostPath(held, target, !writable); err != nil {
		return specs.Mount{}, err
	}
	access := "ro"
	if writable {
		access = "rw"
	}
	return specs.Mount{
		Destination: h.Destination, Type: "bind", Source: target,
		Options: []string{"rbind", "rprivate", "nosuid", "nodev", access},
	}, nil
}

// releaseHostPaths unmounts the host paths of a pod, and removes their empty
// folders; never anything that could be another's.
func releaseHostPaths(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("look for host paths: %w", err)
	}
	var failed []error
	for _, e := range entries {
		failed = append(failed, volumes.ReleaseHostPath(filepath.Join(dir, e.Name())))
	}
	if err := errors.Join(failed...); err != nil {
		return err
	}
	for _, empty := range []string{dir, filepath.Dir(dir)} {
		if err := os.Remove(empty); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove the folder of a pod's host paths: %w", err)
		}
	}
	return nil
}
