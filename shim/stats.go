// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"fmt"

	cgroup1 "github.com/containerd/cgroups/v3/cgroup1/stats"
	cgroup2 "github.com/containerd/cgroups/v3/cgroup2/stats"
	taskapi "github.com/containerd/containerd/api/runtime/task/v2"
	"github.com/containerd/containerd/api/types/task"
	"github.com/containerd/errdefs/pkg/errgrpc"
	"github.com/containerd/log"
	"github.com/containerd/typeurl/v2"
	"google.golang.org/protobuf/types/known/anypb"
)

// measured is a container whose Stats we complete.
type measured struct {
	sandbox oomCounter // of the control group that its sandbox runs in
	last    *anypb.Any // what Stats last answered, nil for nothing yet
}

// measure begins to complete a container's Stats.
func (s *Service) measure(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.measured[id] = &measured{}
}

// locate finds the control group of a container that runs as process pid, the
// sandbox's for all containers of a pod.
func (s *Service) locate(ctx context.Context, id string, pid uint32) {
	s.mu.Lock()
	m := s.measured[id]
	s.mu.Unlock()
	if m == nil {
		return
	}
	counter, err := findOOMCounter(pid)
	if err != nil {
		log.G(ctx).WithError(err).WithField("id", id).Warn("kills for want of memory won't be counted")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	m.sandbox = counter
}

// Stats adds to gVisor's answer how often the kernel has killed for want of
// memory, which containerd reports as container_oom_events_total and the reason
// OOMKilled. It answers after the container's exit too, when containerd asks for
// that reason, and gVisor's service has an error (gvisor
// pkg/shim/v1/proc/init_state.go:stoppedState).
func (s *Service) Stats(ctx context.Context, r *taskapi.StatsRequest) (*taskapi.StatsResponse, error) {
	resp, err := s.TaskServiceExt.Stats(ctx, r)
	s.mu.Lock()
	m := s.measured[r.ID]
	var known measured
	if m != nil {
		known = *m
	}
	s.mu.Unlock()
	if m == nil {
		return resp, err
	}
	answer, err := known.answer(resp, err, func() bool { return s.hasExited(ctx, r.ID) })
	if err != nil {
		return nil, errgrpc.ToGRPC(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	m.last = answer
	return &taskapi.StatsResponse{Stats: answer}, nil
}

// hasExited asks gVisor's service, whose other errors have to stay what they are.
func (s *Service) hasExited(ctx context.Context, id string) bool {
	state, err := s.State(ctx, &taskapi.StateRequest{ID: id})
	return err == nil && state.Status == task.Status_STOPPED
}

// answer completes what gVisor's service has answered.
func (m measured) answer(resp *taskapi.StatsResponse, failed error, exited func() bool) (*anypb.Any, error) {
	var metrics any
	var err error
	switch {
	case failed == nil:
		if metrics, err = typeurl.UnmarshalAny(resp.Stats); err != nil {
			return resp.Stats, nil //nolint:nilerr // metrics of a form that we don't know are still metrics
		}
	case !exited():
		return nil, failed
	case m.last == nil:
		metrics = m.sandbox.zero()
	default:
		if metrics, err = typeurl.UnmarshalAny(m.last); err == nil {
			rest(metrics)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read the container's metrics: %w", err)
	}
	m.sandbox.addTo(metrics)
	answer, err := typeurl.MarshalAnyToProto(metrics)
	if err != nil {
		return nil, fmt.Errorf("write the container's metrics: %w", err)
	}
	return answer, nil
}

// rest leaves of an exited container's metrics what it took altogether, not what
// it had in use.
func rest(metrics any) {
	switch m := metrics.(type) {
	case *cgroup1.Metrics:
		m.Memory, m.Pids = &cgroup1.MemoryStat{Usage: &cgroup1.MemoryEntry{}}, &cgroup1.PidsStat{}
	case *cgroup2.Metrics:
		m.Memory, m.Pids = &cgroup2.MemoryStat{}, &cgroup2.PidsStat{}
	}
}
