// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	taskapi "github.com/containerd/containerd/api/runtime/task/v2"
	"github.com/containerd/containerd/v2/pkg/protobuf/types"
	"github.com/containerd/errdefs"
	"github.com/containerd/errdefs/pkg/errgrpc"
	"github.com/containerd/log"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/status"
	"gvisor.dev/gvisor/pkg/shim/v1/extension"

	"github.com/sedna-io/containerd-shim-sedna/internal/config"
	"github.com/sedna-io/containerd-shim-sedna/shim/bundle"
)

// Service is containerd's task service for one pod: gVisor's, with the calls
// overridden that concern a Create which prepares its bundle.
type Service struct {
	extension.TaskServiceExt
	use func() // is told of each Create

	mu sync.Mutex
	// creating holds the Creates in progress, by container id. Guarded by mu.
	creating map[string]*creation
	// records holds the pods' records, by sandbox id. Guarded by mu.
	records map[string]*record
	// variables holds what each container's environment got from us, by
	// container id. Guarded by mu.
	variables map[string][]string
	// containers says of each container that gVisor's service has whether it was
	// started, by id. Guarded by mu.
	containers map[string]bool
	// measured holds what completes the containers' Stats, by container id.
	// Guarded by mu.
	measured map[string]*measured
}

// over puts a Service in front of another task service.
func over(next extension.TaskServiceExt) *Service {
	return &Service{
		TaskServiceExt: next, use: func() {},
		creating: map[string]*creation{}, records: map[string]*record{}, variables: map[string][]string{},
		containers: map[string]bool{}, measured: map[string]*measured{},
	}
}

// Create prepares the bundle and hands off to gVisor's service.
func (s *Service) Create(ctx context.Context, r *taskapi.CreateTaskRequest) (*taskapi.CreateTaskResponse, error) {
	createCtx, c, err := s.begin(ctx, r.ID)
	if err != nil {
		return nil, toGRPC(err)
	}
	defer s.end(r.ID, c)
	if err = s.prepareInTime(createCtx, c, r); err == nil {
		err = s.handOff(createCtx, c)
	}
	if err != nil {
		err = explain(createCtx, err)
		log.G(ctx).WithError(err).WithField("id", r.ID).Error("prepare the bundle")
		if err := unmountRootFS(r.Bundle); err != nil {
			log.G(ctx).WithError(err).WithField("id", r.ID).Error("clean up after a failed Create")
		}
		s.leaveSoon(ctx, r.ID)
		return nil, toGRPC(err)
	}
	resp, err := s.create(createCtx, c, r)
	switch {
	case err != nil:
		s.forget(r.ID) // there'll be no Delete that works
	case createCtx.Err() != nil:
		s.takeBack(ctx, r.ID)
		err = toGRPC(explain(createCtx, createCtx.Err()))
	default:
		s.locate(ctx, r.ID, resp.Pid)
		return resp, nil
	}
	s.leaveSoon(ctx, r.ID)
	return nil, err
}

// prepareInTime prepares the bundle, however long what the pod has mounted takes
// to answer.
func (s *Service) prepareInTime(ctx context.Context, c *creation, r *taskapi.CreateTaskRequest) error {
	cfg, err := loadConfig(r)
	margin := config.Default().Shim.DeadlineMargin
	if err == nil {
		margin = cfg.Shim.DeadlineMargin
	}
	err = c.touching.within(ctx, time.Duration(margin), func() error {
		return quietly(func() error { return s.prepare(ctx, &c.touching, r) })
	})
	if errors.Is(err, errHangs) {
		// Its own clean-up hangs too.
		if err := removePod(r.Bundle); err != nil {
			log.G(ctx).WithError(err).Error("clean up after a Create that hangs")
		}
	}
	return err
}

// create has gVisor's service create the container. A `runsc create` that hangs
// is ended some time after the end of ctx.
func (s *Service) create(ctx context.Context, c *creation, r *taskapi.CreateTaskRequest) (*taskapi.CreateTaskResponse, error) {
	outliving, cancel := outlive(ctx, callGrace)
	defer cancel()
	made := make(chan *taskapi.CreateTaskResponse, 1)
	c.touching.now("")
	err := c.touching.within(outliving, 0, func() error {
		resp, err := s.TaskServiceExt.Create(outliving, r)
		if err == nil {
			s.made(r.ID)
			made <- resp
		}
		return err
	})
	if err == nil {
		return <-made, nil
	}
	if left := removeStrays(ctx, r); left != nil {
		log.G(ctx).WithError(left).Error("clean up after a `runsc create` that failed")
	}
	return nil, toGRPC(err)
}

// takeBack deletes a container that nobody waits for any more.
func (s *Service) takeBack(ctx context.Context, id string) {
	cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), callGrace)
	defer cancel()
	if _, err := s.TaskServiceExt.Delete(cleanup, &taskapi.DeleteRequest{ID: id}); err != nil {
		log.G(ctx).WithError(err).WithField("id", id).Error("delete a container that nobody waits for")
		return
	}
	s.forget(id)
}

// Start goes on, like Create, when its caller has gone: gVisor's service watches
// for the container's end only after `runsc start`, and containerd would wait for
// that end a minute in vain.
func (s *Service) Start(ctx context.Context, r *taskapi.StartRequest) (*taskapi.StartResponse, error) {
	began := time.Now()
	outliving, cancel := outlive(ctx, callGrace)
	defer cancel()
	if r.ExecID != "" {
		return s.TaskServiceExt.Start(outliving, r)
	}
	if deadline, ok := endBefore(ctx, startMargin); ok {
		outliving, cancel = context.WithDeadline(outliving, deadline)
		defer cancel()
	}
	s.started(r.ID)
	resp, err := s.TaskServiceExt.Start(outliving, r)
	if err != nil && s.isSandbox(r.ID) {
		s.neverRuns(context.WithoutCancel(ctx), r.ID, startFailed)
	}
	if err != nil && errors.Is(outliving.Err(), context.DeadlineExceeded) {
		err = toGRPC(fmt.Errorf("`runsc start` was ended after %s, it may wait for a volume of the container: is the server or the program behind its file system alive? %s: %w",
			time.Since(began).Round(100*time.Millisecond), status.Convert(err).Message(), errHangs))
	}
	return resp, err
}

// startMargin is how long before its caller's deadline a `runsc start` that hangs
// is ended.
const startMargin = 5 * time.Second

// CreateWithFSRestore is not offered: no caller of containerd's task API can
// ask for it, and it would go past the preparation.
func (s *Service) CreateWithFSRestore(context.Context, *extension.CreateWithFSRestoreRequest) (*taskapi.CreateTaskResponse, error) {
	return nil, toGRPC(errdefs.ErrNotImplemented)
}

// prepare does what this shim exists for, by the kind of container.
func (s *Service) prepare(ctx context.Context, t *touching, r *taskapi.CreateTaskRequest) error {
	b, err := bundle.Load(r.Bundle)
	if err != nil {
		return err
	}
	pod, err := b.Pod()
	if err != nil {
		return err
	}
	if pod.Kind == bundle.Container {
		return s.prepareContainer(ctx, t, r, b, pod)
	}
	return s.prepareSandbox(ctx, t, r, b, pod)
}

// State answers by itself while there's no container yet, as do Pids and
// Connect: gVisor's service may not get to it.
func (s *Service) State(ctx context.Context, r *taskapi.StateRequest) (*taskapi.StateResponse, error) {
	if r.ExecID == "" && s.busy(ctx, r.ID) {
		return nil, notCreated(r.ID)
	}
	return s.TaskServiceExt.State(ctx, r)
}

// Pids lists the processes of a container.
func (s *Service) Pids(ctx context.Context, r *taskapi.PidsRequest) (*taskapi.PidsResponse, error) {
	if s.busy(ctx, r.ID) {
		return nil, notCreated(r.ID)
	}
	return s.TaskServiceExt.Pids(ctx, r)
}

// Connect names this process.
func (s *Service) Connect(ctx context.Context, r *taskapi.ConnectRequest) (*taskapi.ConnectResponse, error) {
	if s.busy(ctx, r.ID) {
		return &taskapi.ConnectResponse{ShimPid: uint32(os.Getpid())}, nil
	}
	return s.TaskServiceExt.Connect(ctx, r)
}

func notCreated(id string) error {
	return errgrpc.ToGRPCf(errdefs.ErrNotFound, "container %q was not created yet", id)
}

// Kill cancels a preparation at once; a signal that no process has to obey is
// left to gVisor's service, which knows no such container yet.
func (s *Service) Kill(ctx context.Context, r *taskapi.KillRequest) (*types.Empty, error) {
	ends := r.Signal == uint32(unix.SIGTERM) || r.Signal == uint32(unix.SIGKILL)
	if !ends || r.ExecID != "" {
		return s.TaskServiceExt.Kill(ctx, r)
	}
	if s.interrupt(ctx, r.ID, errKilled) {
		return &types.Empty{}, nil
	}
	if s.isSandbox(r.ID) { // with all that is in it
		for _, c := range s.inProgress() {
			c.cancel(errKilled)
		}
	}
	resp, err := s.TaskServiceExt.Kill(ctx, r)
	if s.waitsForStart(r.ID) {
		s.neverRuns(ctx, r.ID, killed)
		return &types.Empty{}, nil
	}
	return resp, err
}

// Delete cancels a preparation at once. What containerd hears then is that
// there is no such container, which ends its clean-up well.
func (s *Service) Delete(ctx context.Context, r *taskapi.DeleteRequest) (*taskapi.DeleteResponse, error) {
	if r.ExecID != "" {
		return s.TaskServiceExt.Delete(ctx, r)
	}
	if s.interrupt(ctx, r.ID, errDeleted) {
		return nil, notCreated(r.ID)
	}
	if err := s.removePod(r.ID); err != nil {
		return nil, toGRPC(err)
	}
	resp, err := s.TaskServiceExt.Delete(ctx, r)
	if err == nil {
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

// isSandbox says whether id is the pod's sandbox, made by this process.
func (s *Service) isSandbox(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	rec := s.records[id]
	return rec != nil && rec.bundle != ""
}

// Shutdown cancels the Create of r.ID and answers at once; the process ends when
// all of them have cleaned up, if no container is left.
func (s *Service) Shutdown(ctx context.Context, r *taskapi.ShutdownRequest) (*types.Empty, error) {
	if c, _ := s.creationOf(r.ID); c != nil {
		c.cancel(errShutdown)
	}
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
