// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/containerd/containerd/v2/pkg/sys/reaper"
	"github.com/containerd/errdefs"

	"github.com/sedna-io/containerd-shim-sedna/shim/bundle"
	"github.com/sedna-io/containerd-shim-sedna/storage/worker"
)

// fetch has a worker download everything into dir, the download volume's
// folder. The process is gone when it returns.
func (p *sandbox) fetch(ctx context.Context, dir string) error {
	command, err := p.worker()
	if err != nil {
		return err
	}
	req, err := p.request(dir)
	if err != nil {
		return err
	}
	if name := p.readOnlyVolume(); name != "" {
		if req.Seal, err = p.volumes.Seal(name); err != nil {
			return err
		}
	}
	ctx, cancel := beforeDeadline(ctx, time.Duration(p.cfg.Shim.DeadlineMargin))
	defer cancel()
	p.touch.now("") // waiting for a slot, and for the worker, ends with ctx
	watch := p.follow(req)
	release, err := p.queue(ctx, watch)
	if err != nil {
		return p.explain(ctx, err, watch)
	}
	defer release()
	defer p.meter(&command, &req)()
	p.touch.now("the pod's volume %q", p.plan.Volume)
	group, err := p.groupFor(dir)
	p.touch.now("")
	if err != nil {
		return p.explain(ctx, err, watch)
	}
	command.Started = func(pid int) error {
		process, err := worker.ProcessOf(pid)
		if err != nil {
			return fmt.Errorf("look at the worker: %w", err)
		}
		return group.take(process)
	}
	report, err := command.Run(ctx, req, watch.on)
	err = group.explain(err)
	watch.took(group.usage())
	if left := group.remove(); left != nil {
		p.log.WithError(left).Error("clean up after the worker") // `delete` tries again
	}
	if err != nil {
		return p.explain(ctx, err, watch)
	}
	p.log.Infof("downloads are complete: %s", watch.done(report))
	return nil
}

// queue waits for one of the node's download slots. A node where none can be had,
// by a full or read-only /run say, downloads all the same.
func (p *sandbox) queue(ctx context.Context, watch *progress) (release func(), err error) {
	most := p.cfg.Storage.MaxWorkers
	release, err = takeSlot(ctx, most, func() {
		what := fmt.Sprintf("one of the node's %d download slots ([storage] max_workers)", most)
		p.log.Infof("waiting for %s", what)
		watch.on(worker.Event{Progress: &worker.Progress{Waiting: what}})
	})
	if err != nil && ctx.Err() == nil {
		p.log.WithError(err).Warn("downloads of this node aren't counted")
		return func() {}, nil
	}
	return release, err
}

// meter has the worker ask for its part of the node's bandwidth, where that is
// limited. A node that can't keep account of it limits each worker on its own.
func (p *sandbox) meter(c *worker.Command, req *worker.Request) (done func()) {
	s := p.cfg.Storage
	if s.Bandwidth <= 0 {
		return func() {}
	}
	b, err := openBudget(int64(s.Bandwidth), s.MaxWorkers)
	if err != nil {
		p.log.WithError(err).Warn("[storage] bandwidth holds for this download alone: it can't be shared")
		return func() {}
	}
	c.Meter, req.Limits.Metered = b.grant, true
	return b.close
}

// worker finds the program and says where it has to work.
func (p *sandbox) worker() (worker.Command, error) {
	path, err := worker.Find(p.cfg.Storage.Worker)
	if err != nil {
		return worker.Command{}, err
	}
	c := worker.Command{
		Path:  path,
		Start: startReaped,
	}
	if p.onNodeNetwork() {
		if !p.pod.HasNetNS {
			// Its names are still its own: with dnsPolicy ClusterFirstWithHostNet
			// kubelet gives it the cluster's DNS.
			c.ResolvConf = p.pod.ResolvConf
		}
		return c, nil
	}
	if p.pod.NetNS == "" {
		return worker.Command{}, fmt.Errorf("the sandbox's network namespace has no path, so nothing can be fetched through the pod's network: %w", errdefs.ErrFailedPrecondition)
	}
	c.NetNS, c.ResolvConf = p.pod.NetNS, p.pod.ResolvConf
	return c, nil
}

// onNodeNetwork says whether downloads go through the node's network: by the
// node's choice, or since the pod itself lives on it.
func (p *sandbox) onNodeNetwork() bool {
	return p.cfg.Storage.Network == "host" || !p.pod.HasNetNS
}

// onNodeNames says whether a name that is downloaded from leads where the node
// says, by its network and its name servers. A pod on the node's network brings
// name servers of its own choice (dnsPolicy: None).
func (p *sandbox) onNodeNames() bool {
	return p.onNodeNetwork() && p.pod.HasNetNS
}

// startReaped starts a child. A shim reaps all its children in one place, so
// that waiting for one oneself would lose the race.
func startReaped(cmd *exec.Cmd) (func() (int, error), error) {
	exits, err := reaper.Default.Start(cmd)
	if err != nil {
		return nil, err
	}
	return func() (int, error) { return reaper.Default.Wait(cmd, exits) }, nil
}

// errOutOfTime ends a download that would not be ready in time.
var errOutOfTime = outOfTime{}

// outOfTime is context.DeadlineExceeded in words for people.
type outOfTime struct{}

func (outOfTime) Error() string { return "the time for creating the pod is over" }

func (outOfTime) Unwrap() error { return context.DeadlineExceeded }

// beforeDeadline ends ctx by the margin before its deadline.
func beforeDeadline(ctx context.Context, margin time.Duration) (context.Context, context.CancelFunc) {
	deadline, ok := endBefore(ctx, margin)
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithDeadlineCause(ctx, deadline, errOutOfTime)
}

// endBefore is the margin before ctx's deadline, or a twentieth of what is left
// if that is less: time enough to say how far it got.
func endBefore(ctx context.Context, margin time.Duration) (time.Time, bool) {
	deadline, ok := ctx.Deadline()
	return deadline.Add(-min(margin, time.Until(deadline)/20)), ok
}

// explain makes the error that people read. What the worker says of itself is
// complete; what ended it from outside needs to say how far it got.
func (p *sandbox) explain(ctx context.Context, err error, watch *progress) error {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errOutOfTime), errors.Is(cause, context.DeadlineExceeded):
		return fmt.Errorf("download for %s is not finished: %s; the data is kept, and the next attempt goes on from there: %w",
			p.mounts(), watch.far(), errOutOfTime)
	case cause != nil:
		return fmt.Errorf("download for %s was cancelled: %w", p.mounts(), cause)
	}
	return err
}

// mounts names the mounts of the pod that ask for downloads, for people.
func (p *sandbox) mounts() string {
	var names []string
	for _, name := range p.mountNames() {
		names = append(names, fmt.Sprintf("%q", name))
	}
	if len(names) > 1 {
		return "mounts " + strings.Join(names, ", ")
	}
	return "mount " + strings.Join(names, "")
}

func (p *sandbox) mountNames() []string {
	var names []string
	for _, d := range p.plan.Downloads {
		for _, m := range d.Mounts {
			if !slices.Contains(names, m) {
				names = append(names, m)
			}
		}
	}
	return names
}

// workerPod says whom the worker works for.
func workerPod(pod bundle.Pod) worker.Pod {
	return worker.Pod{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
}
