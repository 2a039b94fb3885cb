// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"fmt"

	"github.com/containerd/errdefs"

	"github.com/sedna-io/containerd-shim-sedna/storage/plan"
)

// bindHostPaths mounts the node's folders that the pod asked for.
func (p *sandbox) bindHostPaths() error {
	if len(p.plan.HostPaths) == 0 {
		return nil
	}
	var roots []plan.HostRoot
	for _, h := range p.cfg.HostPaths {
		roots = append(roots, plan.HostRoot{Path: h.Path, Writable: h.Writable, Namespaces: h.Namespaces})
	}
	if err := p.plan.CheckHostPaths(roots, p.pod.Namespace); err != nil {
		return err
	}
	return fmt.Errorf("host paths are not supported yet: %w", errdefs.ErrNotImplemented)
}
