// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"

	"github.com/containerd/containerd/v2/core/events"
	containerdshim "github.com/containerd/containerd/v2/pkg/shim"
	"github.com/containerd/log"
)

// publisher hands events to containerd. gVisor's service panics when one can't
// be handed over: gvisor.dev/gvisor pkg/shim/v1/runsc/service.go:forward. So a
// container that ended while containerd was restarted took its pod's shim with
// it, and all the other containers. containerd's library tries an event again by
// itself: containerd pkg/shim/publisher.go:processQueue. And a containerd that
// comes back later asks for the state of every task.
type publisher struct{ containerdshim.Publisher }

// Publish never fails.
func (p publisher) Publish(ctx context.Context, topic string, event events.Event) error {
	if err := p.Publisher.Publish(ctx, topic, event); err != nil {
		log.G(ctx).WithError(err).WithField("topic", topic).Warn("containerd doesn't take an event now; it is tried again")
	}
	return nil
}
