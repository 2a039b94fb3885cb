package shim

import (
	"context"

	taskapi "github.com/containerd/containerd/api/runtime/task/v2"

	"github.com/sedna-io/containerd-shim-sedna/shim/bundle"
)

type record struct{}

func (s *Service) prepareSandbox(ctx context.Context, r *taskapi.CreateTaskRequest, b *bundle.Bundle, pod bundle.Pod) error {
	return nil
}

func (s *Service) prepareContainer(ctx context.Context, r *taskapi.CreateTaskRequest, b *bundle.Bundle, pod bundle.Pod) error {
	return nil
}

func removeWorker(dir string) error { return nil }
