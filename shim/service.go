// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	taskapi "github.com/containerd/containerd/api/runtime/task/v2"
	"github.com/containerd/containerd/v2/pkg/protobuf/types"
	"github.com/containerd/errdefs"
	"github.com/containerd/errdefs/pkg/errgrpc"
	"github.com/containerd/log"
	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/shim/v1/extension"

	"github.com/sedna-io/containerd-shim-sedna/shim/bundle"
)

// Service is containerd's task service for one pod: gVisor's, with the calls
// overridden that concern a Create which prepares its bundle.
type Service struct {
	extension.TaskServiceExt

	mu sync.Mutex
	// creating holds the Creates in progress, by container id. Guarded by mu.
	creating map[string]*creation
	// records holds the pods' records, by sandbox id. Guarded by mu.
	records map[string]*record
	// used says that a Create has come. Guarded by mu.
	used bool
	// variables holds what each container's environment got from us, by
	// container id. Guarded by mu.
	variables map[string][]string
	// measured holds what completes the containers' Stats, by container id.
	// Guarded by mu.
	measured map[string]*measured
}

// creation is one Create in progress.
type creation struct {
	cancel context.CancelCauseFunc
	// preparing is false once gVisor's service has taken over: then its own
	// Kill and Delete work. Guarded by Service.mu.
	preparing bool
	// done is closed when Create returns: worker and cgroup are gone.
	done chan struct{}
}

// cancelled is why a Create was cancelled through this service, not by its
// caller's context.
type cancelled string

func (c cancelled) Error() string { return string(c) }

// Unwrap makes it a cancellation for errdefs.
func (c cancelled) Unwrap() error { return context.Canceled }

const (
	errKilled   = cancelled("the container was killed while its data was downloaded")
	errDeleted  = cancelled("the container was deleted while its data was downloaded")
	errShutdown = cancelled("the shim was shut down while data was downloaded")
)

// over puts a Service in front of another task service.
func over(next extension.TaskServiceExt) *Service {
	return &Service{
		TaskServiceExt: next,
		creating:       map[string]*creation{}, records: map[string]*record{}, variables: map[string][]string{},
		measured: map[string]*measured{},
	}
}

// Create prepares the bundle and hands off to gVisor's service.
func (s *Service) Create(ctx context.Context, r *taskapi.CreateTaskRequest) (*taskapi.CreateTaskResponse, error) {
	prepareCtx, c, err := s.begin(ctx, r.ID)
	if err != nil {
		return nil, errgrpc.ToGRPC(err)
	}
	defer s.end(r.ID, c)
	err = s.prepare(prepareCtx, r)
	if err == nil {
		err = s.handOff(prepareCtx, c)
	}
	if err != nil {
		err = explain(prepareCtx, err)
		log.G(ctx).WithError(err).WithField("id", r.ID).Error("prepare the bundle")
		if err := unmountRootFS(r.Bundle); err != nil {
			log.G(ctx).WithError(err).WithField("id", r.ID).Error("clean up after a failed Create")
		}
		if isGone(ctx) {
			s.leave(ctx, r.ID)
		} else {
			s.leaveLater(ctx, r.ID)
		}
		return nil, errgrpc.ToGRPC(err)
	}
	outliving, cancel := outlive(ctx, callGrace)
	defer cancel()
	resp, err := s.TaskServiceExt.Create(outliving, r)
	switch {
	case err != nil:
		s.forget(r.ID) // there'll be no Delete that works
		return nil, err
	case ctx.Err() != nil:
		s.takeBack(ctx, r.ID)
		return nil, errgrpc.ToGRPC(ctx.Err())
	}
	s.locate(ctx, r.ID, resp.Pid)
	return resp, nil
}

// forget drops what is held for the container's Exec and Stats.
func (s *Service) forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.variables, id)
	delete(s.measured, id)
}

// takeBack deletes a container whose creator has gone meanwhile.
func (s *Service) takeBack(ctx context.Context, id string) {
	cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), callGrace)
	defer cancel()
	if _, err := s.TaskServiceExt.Delete(cleanup, &taskapi.DeleteRequest{ID: id}); err != nil {
		log.G(ctx).WithError(err).WithField("id", id).Error("delete a container that nobody waits for")
	}
	s.forget(id)
	if isGone(ctx) {
		s.leave(ctx, id)
	}
}

// Start goes on, like Create, when its caller has gone: gVisor's service watches
// for the container's end only after `runsc start`, and containerd would wait for
// that end a minute in vain.
func (s *Service) Start(ctx context.Context, r *taskapi.StartRequest) (*taskapi.StartResponse, error) {
	outliving, cancel := outlive(ctx, callGrace)
	defer cancel()
	return s.TaskServiceExt.Start(outliving, r)
}

// callGrace is how long `runsc create` and `runsc start` may go on when their
// caller has gone. They take a fraction of a second. A create killed in the
// middle, as gVisor's service does, leaves a sandbox and a gofer that no state
// names, so nothing would ever end them; when it ends by itself, the Delete with
// which containerd follows a failed Create finds the container and takes it down.
const callGrace = 10 * time.Second

// outlive returns a context with ctx's values that ends some time after ctx.
func outlive(ctx context.Context, grace time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(grace):
			cancel()
		case <-longer.Done():
		}
	})
	return longer, func() {
		stop()
		cancel()
	}
}

// CreateWithFSRestore is not offered: no caller of containerd's task API can
// ask for it, and it would go past the preparation.
func (s *Service) CreateWithFSRestore(context.Context, *extension.CreateWithFSRestoreRequest) (*taskapi.CreateTaskResponse, error) {
	return nil, errgrpc.ToGRPC(errdefs.ErrNotImplemented)
}

// isGone says whether the caller's connection has closed: ttrpc carries no
// cancel, so nothing else cancels a call's context.
func isGone(ctx context.Context) bool { return errors.Is(ctx.Err(), context.Canceled) }

// leave ends the process once the given Creates have ended, unless there is
// something left to serve: nobody may ever come back to shut it down. The call
// that asks for it may end before; the process must not.
func (s *Service) leave(ctx context.Context, id string, after ...*creation) {
	for _, c := range after {
		<-c.done
	}
	if _, err := s.TaskServiceExt.Shutdown(context.WithoutCancel(ctx), &taskapi.ShutdownRequest{ID: id}); err != nil {
		log.G(ctx).WithError(err).Error("shut down when there is nobody left to do it")
	}
}

// orphanTime is how long a process waits to be shut down after a failed Create.
var orphanTime = 10 * time.Second

// leaveLater is for a caller that dies between the calls by which it cleans up:
// the one that follows it may take the process for a pod's, and let it live.
func (s *Service) leaveLater(ctx context.Context, id string) {
	time.AfterFunc(orphanTime, func() { s.leave(ctx, id, s.inProgress()...) })
}

// unusedTime is how long a new process waits for its first Create, which
// containerd sends at once, unless its own caller has lost interest meanwhile.
var unusedTime = time.Minute

// leaveUnused ends the process if no Create ever comes: nobody but who sends it
// would shut it down.
func (s *Service) leaveUnused(ctx context.Context) {
	time.AfterFunc(unusedTime, func() {
		s.mu.Lock()
		used := s.used
		s.mu.Unlock()
		if !used {
			s.leave(ctx, "")
		}
	})
}

// prepare does what this shim exists for, by the kind of container.
func (s *Service) prepare(ctx context.Context, r *taskapi.CreateTaskRequest) error {
	b, err := bundle.Load(r.Bundle)
	if err != nil {
		return err
	}
	pod, err := b.Pod()
	if err != nil {
		return err
	}
	if pod.Kind == bundle.Container {
		return s.prepareContainer(ctx, r, b, pod)
	}
	return s.prepareSandbox(ctx, r, b, pod)
}

// begin registers a Create. The context that it returns ends with the caller's,
// or by Kill, Delete or Shutdown.
func (s *Service) begin(ctx context.Context, id string) (context.Context, *creation, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.creating[id] != nil {
		return nil, nil, fmt.Errorf("container %q is being created: %w", id, errdefs.ErrAlreadyExists)
	}
	s.used = true
	ctx, cancel := context.WithCancelCause(ctx)
	c := &creation{cancel: cancel, preparing: true, done: make(chan struct{})}
	s.creating[id] = c
	return ctx, c, nil
}

// handOff marks the end of the preparation, unless it was cancelled meanwhile.
func (s *Service) handOff(ctx context.Context, c *creation) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	c.preparing = false
	return nil
}

func (s *Service) end(id string, c *creation) {
	s.mu.Lock()
	delete(s.creating, id)
	s.mu.Unlock()
	c.cancel(nil)
	close(c.done)
}

// cancelPreparing cancels the preparation of id, and says whether there was one.
func (s *Service) cancelPreparing(id string, why error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.creating[id]
	if c == nil || !c.preparing {
		return false
	}
	c.cancel(why)
	return true
}

// Kill cancels a preparation at once; a signal that no process has to obey is
// left to gVisor's service, which knows no such container yet.
func (s *Service) Kill(ctx context.Context, r *taskapi.KillRequest) (*types.Empty, error) {
	ends := r.Signal == uint32(unix.SIGTERM) || r.Signal == uint32(unix.SIGKILL)
	if ends && r.ExecID == "" && s.cancelPreparing(r.ID, errKilled) {
		return &types.Empty{}, nil
	}
	return s.TaskServiceExt.Kill(ctx, r)
}

// Delete cancels a preparation at once. What containerd hears then is that
// there is no such container, which ends its clean-up well.
func (s *Service) Delete(ctx context.Context, r *taskapi.DeleteRequest) (*taskapi.DeleteResponse, error) {
	if r.ExecID == "" && s.cancelPreparing(r.ID, errDeleted) {
		return nil, errgrpc.ToGRPCf(errdefs.ErrNotFound, "container %q was not created yet", r.ID)
	}
	if r.ExecID == "" {
		// runsc is at work on it: until that is done gVisor's service would say
		// that there is no such container, and then there would be one.
		if err := s.awaitCreate(ctx, r.ID); err != nil {
			return nil, errgrpc.ToGRPC(err)
		}
		if err := s.removePod(r.ID); err != nil {
			return nil, errgrpc.ToGRPC(err)
		}
	}
	resp, err := s.TaskServiceExt.Delete(ctx, r)
	if err == nil && r.ExecID == "" {
		s.forget(r.ID)
	}
	return resp, err
}

// removePod takes back what was made for a pod when its sandbox goes. Only the
// sandbox's id does that: its containers come and go.
func (s *Service) removePod(id string) error {
	s.mu.Lock()
	rec := s.records[id]
	s.mu.Unlock()
	if rec == nil || rec.bundle == "" {
		return nil
	}
	return removePod(rec.bundle)
}

// Shutdown cancels every preparation of r.ID's shim and answers at once; the
// process ends when the last of them has cleaned up, if no container is left.
func (s *Service) Shutdown(ctx context.Context, r *taskapi.ShutdownRequest) (*types.Empty, error) {
	s.cancelPreparing(r.ID, errShutdown)
	waiting := s.inProgress()
	if len(waiting) == 0 {
		// gVisor's answer is nil while containers are left, which ttrpc from
		// 1.2.8 on refuses to send ("marshal called with nil").
		_, err := s.TaskServiceExt.Shutdown(ctx, r)
		return &types.Empty{}, err
	}
	go s.leave(ctx, r.ID, waiting...)
	return &types.Empty{}, nil
}

// awaitCreate returns once no Create of id is in progress.
func (s *Service) awaitCreate(ctx context.Context, id string) error {
	s.mu.Lock()
	c := s.creating[id]
	s.mu.Unlock()
	if c == nil {
		return nil
	}
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// inProgress returns the Creates in progress.
func (s *Service) inProgress() []*creation {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*creation
	for _, c := range s.creating {
		all = append(all, c)
	}
	return all
}

// explain prefers the reason of a cancellation to what it made of the call that
// it hit.
func explain(ctx context.Context, err error) error {
	var why cancelled
	if errors.As(context.Cause(ctx), &why) {
		return why
	}
	return err
}
