// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/containerd/errdefs"
)

// creation is one Create in progress.
type creation struct {
	cancel context.CancelCauseFunc
	// preparing is false once gVisor's service has taken over. Guarded by
	// Service.mu.
	preparing bool
	// done is closed when Create returns: worker and cgroup are gone.
	done chan struct{}
	// touching is what the preparation may hang at.
	touching touching
}

// cancelled is why a Create was cancelled through this service, not by its
// caller's context.
type cancelled string

func (c cancelled) Error() string { return string(c) }

// Unwrap makes it a cancellation for errdefs.
func (c cancelled) Unwrap() error { return context.Canceled }

const (
	errKilled   = cancelled("the container was killed while it was created")
	errDeleted  = cancelled("the container was deleted while it was created")
	errShutdown = cancelled("the shim was shut down while the container was created")
)

// begin registers a Create. The context that it returns ends with the caller's,
// or by Kill, Delete or Shutdown.
func (s *Service) begin(ctx context.Context, id string) (context.Context, *creation, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.creating[id] != nil {
		return nil, nil, fmt.Errorf("container %q is being created: %w", id, errdefs.ErrAlreadyExists)
	}
	s.use()
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

// creationOf returns the Create of id that is in progress, nil for none, and
// whether it prepares.
func (s *Service) creationOf(id string) (c *creation, preparing bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c = s.creating[id]
	return c, c != nil && c.preparing
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

// answerTime is how long a call waits for gVisor's service, which holds its lock
// all through `runsc create`, before it is answered without: that takes a
// fraction of a second, but a volume can make it hang.
var answerTime = 700 * time.Millisecond

// busy says whether id is still being created, so that there's nothing that
// gVisor's service could say about it.
func (s *Service) busy(ctx context.Context, id string) bool {
	c, preparing := s.creationOf(id)
	return c != nil && (preparing || !c.ends(ctx))
}

// interrupt cancels the Create of id, and says whether there is one to cancel:
// at once while it prepares, and when gVisor's service doesn't get done with it.
// What that service has made then is taken back by Create.
func (s *Service) interrupt(ctx context.Context, id string, why error) bool {
	if !s.busy(ctx, id) {
		return false
	}
	if c, _ := s.creationOf(id); c != nil {
		c.cancel(why)
	}
	return true
}

// ends says whether the Create ends within the time in which a call must be
// answered.
func (c *creation) ends(ctx context.Context) bool {
	timer := time.NewTimer(answerTime)
	defer timer.Stop()
	select {
	case <-c.done:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
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
