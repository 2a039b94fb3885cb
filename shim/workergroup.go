// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"fmt"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"

	"github.com/sedna-io/containerd-shim-sedna/internal/config"
	"github.com/sedna-io/containerd-shim-sedna/storage/worker"
)

// workerGroup is the control group of the pod's worker, or what is left to do
// on a node where there can't be one.
type workerGroup struct {
	bundle string
	id     string // of the sandbox
	log    *log.Entry
	memory config.Size   // the node's limit
	group  *worker.Group // nil where none can be named
	made   bool
}

// groupFor makes the group for a worker that writes into dir. A node where that
// fails gets a warning: its pods shall start all the same.
func (p *sandbox) groupFor(dir string) (*workerGroup, error) {
	limits := p.cfg.Storage.Limits
	g := &workerGroup{bundle: p.bundle.Dir, id: p.pod.SandboxID, log: p.log, memory: limits.Memory}
	group, err := worker.NewGroup(cgroupRoot, p.pod.CgroupsPath, p.pod.SandboxID)
	if err != nil {
		p.log.WithError(err).Warn("the download worker has no limits of its own")
		return g, nil
	}
	if err := (workerNote{Sandbox: g.id, Group: group}).save(g.bundle); err != nil {
		return nil, err
	}
	g.group = group
	bounds := worker.Bounds{Memory: int64(g.memory), CPU: int64(limits.CPU)}
	lacks, err := group.Make(bounds.ForVolume(dir))
	if g.made = err == nil; !g.made {
		p.log.WithError(err).Warn("the download worker has no limits of its own")
	}
	for _, lack := range lacks {
		p.log.Warnf("the download worker's control group: %s", lack)
	}
	return g, nil
}

// take puts the worker into the group, before it has its request.
func (g *workerGroup) take(process worker.Process) error {
	if err := (workerNote{Process: process, Sandbox: g.id, Group: g.group}).save(g.bundle); err != nil {
		return err
	}
	if !g.made {
		return nil
	}
	if err := g.group.Add(process.PID); err != nil {
		g.log.WithError(err).Warn("the download worker has no limits of its own")
	}
	return nil
}

// explain says why a worker was killed, where the kernel can tell.
func (g *workerGroup) explain(err error) error {
	if err == nil || !g.made {
		return err
	}
	if limit, pods, starved := g.group.Starved(); starved {
		return starvedError(limit, pods, g.memory)
	}
	return err
}

// starvedError tells who gave a worker too little: the pod, the node, or its
// configuration.
func starvedError(limit int64, pods bool, configured config.Size) error {
	why := "the node has no more"
	switch {
	case pods:
		why = fmt.Sprintf("the pod's own limit of %s is all it has; raise the limits of its containers", size(limit))
	case limit > 0:
		why = fmt.Sprintf("it needed more than [storage.limits] memory = %s; raise it in the node's configuration", configured)
	}
	return fmt.Errorf("the download worker was ended for want of memory: %s; the next attempt goes on from what was fetched: %w", why, errdefs.ErrResourceExhausted)
}

// remove removes the group and forgets the worker, whose process is gone.
func (g *workerGroup) remove() error {
	if g.group != nil {
		if err := g.group.Remove(); err != nil {
			return err
		}
	}
	return forgetWorker(g.bundle)
}
