// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	taskapi "github.com/containerd/containerd/api/runtime/task/v2"
	"github.com/containerd/errdefs"

	"github.com/sedna-io/containerd-shim-sedna/shim/bundle"
	"github.com/sedna-io/containerd-shim-sedna/volumes"
)

// prepareContainer makes one of the pod's containers follow the record. It
// takes no wish from the container's annotations: kubelet sends the pod's
// current ones, so whoever may edit the pod could change them under a running
// sandbox.
func (s *Service) prepareContainer(ctx context.Context, t *touching, r *taskapi.CreateTaskRequest, b *bundle.Bundle, pod bundle.Pod) error {
	rec, err := s.recordOf(pod.SandboxID, r.ID, r.Bundle)
	if err != nil {
		return err
	}
	logger := podLog(ctx, pod).WithField("container", pod.ContainerName)
	for _, key := range rec.changed(b.Spec.Annotations) {
		logger.Warnf("annotation %s differs from the one that the pod was started with: a running pod keeps the first", key)
	}
	volumes.FilterAnnotations(b.Spec, rec.Allowed)
	stripAnnotations(b.Spec.Annotations)
	t.now("the source of one of the container's mounts")
	notes, err := rec.Hints.ApplyContainer(b.Spec)
	if err != nil {
		return err
	}
	if rec.Inject != nil {
		before := environment(b)
		more, err := volumes.Inject(b.Spec, pod.ContainerName, rec.Inject.volumes())
		if err != nil {
			return err
		}
		notes = append(notes, more...)
		s.mu.Lock()
		s.variables[r.ID] = added(before, environment(b))
		s.mu.Unlock()
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	t.now("")
	for _, note := range notes {
		logger.Info(note)
	}
	if rec.ProtectPaths {
		unprotected, err := protect(ctx, t, r, b)
		if err != nil {
			return err
		}
		for _, note := range unprotected {
			logger.Warn(note)
		}
	}
	if rec.FullStats {
		s.measure(r.ID)
	}
	setPodsDir(rec.Hints.PodsDir)
	_, err = b.Save()
	return err
}

// environment returns a copy of the container's variables.
func environment(b *bundle.Bundle) []string {
	if b.Spec.Process == nil {
		return nil
	}
	return slices.Clone(b.Spec.Process.Env)
}

// keep holds the record of a pod for its containers.
func (s *Service) keep(sandboxID string, rec *record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.records[sandboxID] = rec
}

// recordOf returns the record of a pod. Where each container has a shim of its
// own it lies in the sandbox's bundle.
func (s *Service) recordOf(sandboxID, id, dir string) (*record, error) {
	s.mu.Lock()
	rec := s.records[sandboxID]
	s.mu.Unlock()
	if rec != nil {
		return rec, nil
	}
	if filepath.Base(sandboxID) != sandboxID || strings.Trim(sandboxID, ".") == "" {
		return nil, fmt.Errorf("sandbox id %q is no name: %w", sandboxID, errdefs.ErrInvalidArgument)
	}
	rec, err := loadRecord(neighbour(dir, id, sandboxID))
	if err != nil {
		return nil, fmt.Errorf("the record of the pod's sandbox: %w; delete the pod, so that it is made anew", err)
	}
	s.keep(sandboxID, rec)
	return rec, nil
}

// neighbour is the bundle of another container, given where that of id is:
// containerd's folder of all bundles has ID, CRI-O's has ID/userdata
// (containers/storage store.go:ContainerDirectory).
func neighbour(dir, id, other string) string {
	if parent, last := filepath.Split(filepath.Clean(dir)); filepath.Base(parent) == id {
		return filepath.Join(filepath.Dir(filepath.Clean(parent)), other, last)
	}
	return filepath.Join(filepath.Dir(dir), other)
}
