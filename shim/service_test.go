// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	taskapi "github.com/containerd/containerd/api/runtime/task/v2"
	"github.com/containerd/containerd/v2/pkg/protobuf/types"
	"github.com/containerd/errdefs"
	"github.com/containerd/errdefs/pkg/errgrpc"
	"gvisor.dev/gvisor/pkg/shim/v1/extension"
)

// next stands in for gVisor's service: these tests are about which calls reach it.
type next struct {
	extension.TaskServiceExt
	calls chan string
}

func (n next) Kill(context.Context, *taskapi.KillRequest) (*types.Empty, error) {
	n.calls <- "Kill"
	return &types.Empty{}, nil
}

func (n next) Delete(context.Context, *taskapi.DeleteRequest) (*taskapi.DeleteResponse, error) {
	n.calls <- "Delete"
	return &taskapi.DeleteResponse{}, nil
}

func (n next) Shutdown(context.Context, *taskapi.ShutdownRequest) (*types.Empty, error) {
	n.calls <- "Shutdown"
	return nil, nil
}

func (n next) Start(context.Context, *taskapi.StartRequest) (*taskapi.StartResponse, error) {
	return nil, errors.New("the sandbox is gone")
}

func newTestService() (*Service, next) {
	n := next{calls: make(chan string, 8)}
	return over(n), n
}

func TestCallsThatEndAPreparation(t *testing.T) {
	const id = "box"
	for _, tt := range []struct {
		name string
		call func(*Service) error
		why  error
	}{
		{"kill by SIGKILL", func(s *Service) error {
			_, err := s.Kill(t.Context(), &taskapi.KillRequest{ID: id, Signal: 9})
			return err
		}, errKilled},
		{"kill by SIGTERM", func(s *Service) error {
			_, err := s.Kill(t.Context(), &taskapi.KillRequest{ID: id, Signal: 15})
			return err
		}, errKilled},
		{"delete", func(s *Service) error {
			_, err := s.Delete(t.Context(), &taskapi.DeleteRequest{ID: id})
			if err = errgrpc.ToNative(err); !errdefs.IsNotFound(err) {
				return errors.New("delete of a container that isn't there yet must say so")
			}
			return nil
		}, errDeleted},
		{"shutdown", func(s *Service) error {
			_, err := s.Shutdown(t.Context(), &taskapi.ShutdownRequest{ID: id})
			return err
		}, errShutdown},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, _ := newTestService()
			ctx, c, err := s.begin(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			if err := tt.call(s); err != nil {
				t.Error(err)
			}
			if got := context.Cause(ctx); !errors.Is(got, tt.why) {
				t.Errorf("the preparation ended with %v, want %v", got, tt.why)
			}
			if err := s.handOff(ctx, c); !errors.Is(err, tt.why) {
				t.Errorf("hand-off: got %v, want %v", err, tt.why)
			}
			if err := explain(ctx, errors.New("read: connection reset")); !errdefs.IsCanceled(err) || !errors.Is(err, tt.why) {
				t.Errorf("explained as %v", err)
			}
			s.end(id, c)
		})
	}
}

func TestCallsThatLeaveAPreparationAlone(t *testing.T) {
	s, n := newTestService()
	ctx, c, err := s.begin(t.Context(), "box")
	if err != nil {
		t.Fatal(err)
	}
	defer s.end("box", c)
	for _, r := range []*taskapi.KillRequest{
		{ID: "box", Signal: 10}, {ID: "other", Signal: 9}, {ID: "box", ExecID: "sh", Signal: 9},
	} {
		if _, err := s.Kill(t.Context(), r); err != nil {
			t.Error(err)
		}
		<-n.calls
	}
	if _, err := s.Delete(t.Context(), &taskapi.DeleteRequest{ID: "box", ExecID: "sh"}); err != nil {
		t.Error(err)
	}
	<-n.calls
	if ctx.Err() != nil {
		t.Errorf("the preparation ended: %v", context.Cause(ctx))
	}
}

func TestACallWaitsForGVisorsCreateToEnd(t *testing.T) {
	s, n := newTestService()
	ctx, c, err := s.begin(t.Context(), "box")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.handOff(ctx, c); err != nil {
		t.Fatal(err)
	}
	go s.end("box", c)
	if _, err := s.Kill(t.Context(), &taskapi.KillRequest{ID: "box", Signal: 9}); err != nil {
		t.Error(err)
	}
	if got := <-n.calls; got != "Kill" {
		t.Errorf("got %s", got)
	}
}

func TestWhileGVisorsCreateHangsCallsAreAnsweredWithoutIt(t *testing.T) {
	set(t, &answerTime, time.Millisecond)
	const id = "box"
	for _, tt := range []struct {
		name  string
		call  func(*Service) error
		check func(error) bool
		why   error // nil: Create goes on
	}{
		{"state", func(s *Service) error {
			_, err := s.State(t.Context(), &taskapi.StateRequest{ID: id})
			return err
		}, errdefs.IsNotFound, nil},
		{"pids", func(s *Service) error {
			_, err := s.Pids(t.Context(), &taskapi.PidsRequest{ID: id})
			return err
		}, errdefs.IsNotFound, nil},
		{"connect", func(s *Service) error {
			resp, err := s.Connect(t.Context(), &taskapi.ConnectRequest{ID: id})
			if err == nil && resp.ShimPid != uint32(os.Getpid()) {
				t.Errorf("it is process %d", resp.ShimPid)
			}
			return err
		}, nil, nil},
		{"kill", func(s *Service) error {
			_, err := s.Kill(t.Context(), &taskapi.KillRequest{ID: id, Signal: 9})
			return err
		}, nil, errKilled},
		{"delete", func(s *Service) error {
			_, err := s.Delete(t.Context(), &taskapi.DeleteRequest{ID: id})
			return err
		}, errdefs.IsNotFound, errDeleted},
		{"shutdown", func(s *Service) error {
			_, err := s.Shutdown(t.Context(), &taskapi.ShutdownRequest{ID: id})
			return err
		}, nil, errShutdown},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, _ := newTestService()
			ctx, c, err := s.begin(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.handOff(ctx, c); err != nil {
				t.Fatal(err)
			}
			defer s.end(id, c)
			err = errgrpc.ToNative(tt.call(s))
			if (tt.check == nil) != (err == nil) || err != nil && !tt.check(err) {
				t.Errorf("the answer is %v", err)
			}
			if got := context.Cause(ctx); !errors.Is(got, tt.why) {
				t.Errorf("Create ended with %v, want %v", got, tt.why)
			}
		})
	}
}

func TestAKilledSandboxEndsTheCreatesOfItsContainers(t *testing.T) {
	s, n := newTestService()
	s.keep("pod", &record{bundle: t.TempDir()})
	ctx, c, err := s.begin(t.Context(), "box")
	if err != nil {
		t.Fatal(err)
	}
	defer s.end("box", c)
	if _, err := s.Kill(t.Context(), &taskapi.KillRequest{ID: "pod", Signal: 9}); err != nil {
		t.Error(err)
	}
	<-n.calls
	if !errors.Is(context.Cause(ctx), errKilled) {
		t.Errorf("it ended with %v", context.Cause(ctx))
	}
}

// set changes a variable for the time of a test.
func set[T any](t *testing.T, variable *T, value T) {
	t.Helper()
	previous := *variable
	*variable = value
	t.Cleanup(func() { *variable = previous })
}

func TestShutdownWaitsForPreparations(t *testing.T) {
	s, n := newTestService()
	_, c, err := s.begin(t.Context(), "box")
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := s.Shutdown(t.Context(), &taskapi.ShutdownRequest{ID: "box"}); err != nil || resp == nil {
		t.Fatalf("got %v, %v; want an answer at once", resp, err)
	}
	select {
	case got := <-n.calls:
		t.Fatalf("%s reached gVisor's service while the worker still ran", got)
	default:
	}
	s.end("box", c)
	if got := <-n.calls; got != "Shutdown" {
		t.Errorf("got %s", got)
	}
}

func TestAFailedCreateIsNotOutlivedForLong(t *testing.T) {
	set(t, &orphanTime, time.Millisecond)
	s, n := newTestService()
	if _, err := s.Create(t.Context(), &taskapi.CreateTaskRequest{ID: "box", Bundle: t.TempDir()}); err == nil {
		t.Fatal("an empty bundle was taken")
	}
	if got := <-n.calls; got != "Shutdown" { // which gVisor's service refuses while it has containers
		t.Errorf("got %s", got)
	}
}

func TestOneContainerIsCreatedOnce(t *testing.T) {
	s, _ := newTestService()
	_, c, err := s.begin(t.Context(), "box")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.begin(t.Context(), "box"); !errdefs.IsAlreadyExists(err) {
		t.Errorf("got %v, want that it exists", err)
	}
	s.end("box", c)
	if _, c, err = s.begin(t.Context(), "box"); err != nil {
		t.Errorf("after its end: %v", err)
	}
	s.end("box", c)
}

func TestTheDownloadEndsBeforeItsCaller(t *testing.T) {
	for _, tt := range []struct {
		name         string
		left, margin time.Duration
		want         time.Duration
	}{
		{"by the margin", 10 * time.Minute, 10 * time.Second, 10 * time.Second},
		{"by a twentieth if that is less", 20 * time.Second, 10 * time.Second, time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			parent, cancel := context.WithTimeout(t.Context(), tt.left)
			defer cancel()
			ctx, stop := beforeDeadline(parent, tt.margin)
			defer stop()
			outer, _ := parent.Deadline()
			inner, _ := ctx.Deadline()
			if got := outer.Sub(inner); got > tt.want || got < tt.want-time.Second {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
	ctx, stop := beforeDeadline(t.Context(), time.Second)
	defer stop()
	if _, ok := ctx.Deadline(); ok {
		t.Error("a call without a deadline got one")
	}
}
