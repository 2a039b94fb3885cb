// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"errors"
	"time"

	taskapi "github.com/containerd/containerd/api/runtime/task/v2"
	"github.com/containerd/log"
)

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
	done := make(chan error, 1)
	go func() {
		_, err := s.TaskServiceExt.Shutdown(context.WithoutCancel(ctx), &taskapi.ShutdownRequest{ID: id})
		done <- err
	}()
	late := time.NewTimer(leaveTime)
	defer late.Stop()
	select {
	case err := <-done:
		if err != nil {
			log.G(ctx).WithError(err).Error("shut down when there is nobody left to do it")
		}
	case <-late.C:
		if !s.serves() {
			log.G(ctx).Error("gVisor's service hangs, and there is no container: the process ends without it")
			exit()
		}
	}
}

// leaveTime is how long gVisor's service may take to shut down.
const leaveTime = 5 * time.Second

// orphanTime is how long a process waits to be shut down after a failed Create.
var orphanTime = 10 * time.Second

// leaveSoon is for after a Create that failed: at once where its caller is gone,
// and later where it may die between the calls by which it cleans up. The caller
// that follows it may take the process for a pod's, and let it live.
func (s *Service) leaveSoon(ctx context.Context, id string) {
	if isGone(ctx) {
		go s.leave(ctx, id, s.inProgress()...)
		return
	}
	time.AfterFunc(orphanTime, func() { s.leave(ctx, id, s.inProgress()...) })
}

// callGrace is how long `runsc create` and `runsc start` may go on when their
// caller has gone. They take a fraction of a second. A create killed in the
// middle, as gVisor's service does, leaves a sandbox and a gofer that no state
// names; when it ends by itself, the Delete with which containerd follows a
// failed Create finds the container and takes it down.
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
