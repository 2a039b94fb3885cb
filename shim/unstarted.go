// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"time"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/shim/v1/proc"
)

// Exit codes of a container that never ran: gVisor's for a failure of its own
// (gvisor.dev/gvisor pkg/shim/v1/proc/utils.go:internalErrorCode), and a shell's
// for what was killed.
const (
	startFailed = 128
	killed      = 128 + int(unix.SIGKILL)
)

// made notes that gVisor's service has the container.
func (s *Service) made(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.containers[id] = false
}

// started notes that the container is no longer one that only waits.
func (s *Service) started(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.containers[id] = true
}

// waitsForStart says whether the container is there and nobody has started it.
func (s *Service) waitsForStart(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	started, ok := s.containers[id]
	return ok && !started
}

// forget drops what is held for a container that is gone.
func (s *Service) forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.variables, id)
	delete(s.containers, id)
	delete(s.measured, id)
}

// serves says whether there's a container that needs this process.
func (s *Service) serves() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.containers)+len(s.creating) > 0
}

// neverRuns has gVisor's service report the end of a container that it has
// created and that will never run. It watches for an end only after a start that
// worked, and whoever then deletes the container waits for its end first:
// containerd a minute, see containerd client/task_opts.go:WithProcessKill.
func (s *Service) neverRuns(ctx context.Context, id string, status int) {
	select {
	case proc.ExitCh <- proc.Exit{Timestamp: time.Now(), ID: id, Status: status}:
	case <-ctx.Done():
	}
}
