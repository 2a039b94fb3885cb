// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"

	sandboxapi "github.com/containerd/containerd/api/runtime/sandbox/v1"
	taskapi "github.com/containerd/containerd/api/runtime/task/v2"
	containerdshim "github.com/containerd/containerd/v2/pkg/shim"
	"github.com/containerd/containerd/v2/pkg/shutdown"
	"github.com/containerd/containerd/v2/plugins"
	libraryversion "github.com/containerd/containerd/v2/version"
	"github.com/containerd/plugin"
	"github.com/containerd/plugin/registry"
	"github.com/containerd/ttrpc"
	gvisorshim "gvisor.dev/gvisor/pkg/shim/v1"

	"github.com/sedna-io/containerd-shim-sedna/internal/version"
)

// Register makes the task service, and our version, known to containerd's shim
// library.
func Register() {
	libraryversion.Version = version.Version // what -v prints
	registry.Register(&plugin.Registration{
		Type:     plugins.TTRPCPlugin,
		ID:       "task",
		Requires: []plugin.Type{plugins.EventPlugin, plugins.InternalPlugin},
		InitFn: func(ic *plugin.InitContext) (any, error) {
			events, err := ic.GetByID(plugins.EventPlugin, "publisher")
			if err != nil {
				return nil, err
			}
			stop, err := ic.GetByID(plugins.InternalPlugin, "shutdown")
			if err != nil {
				return nil, err
			}
			return newService(ic.Context, publisher{events.(containerdshim.Publisher)}, stop.(shutdown.Service))
		},
	})
}

// newService wraps gVisor's redirector, which does Shutdown whole; the service
// below it only says whether containers are left.
func newService(ctx context.Context, events containerdshim.Publisher, stop shutdown.Service) (*Service, error) {
	defer endWithBundle()
	next, err := gvisorshim.NewShimRedirector(ctx, events, stop)
	if err != nil {
		return nil, err
	}
	s := over(next)
	s.use = useProcess
	return s, nil
}

// RegisterTTRPC implements containerdshim.TTRPCService. Both services are
// registered as gVisor's redirector registers them, the task service with ours
// in front.
func (s *Service) RegisterTTRPC(server *ttrpc.Server) error {
	taskapi.RegisterTaskService(server, s)
	if sandbox, ok := s.TaskServiceExt.(sandboxapi.TTRPCSandboxService); ok {
		sandboxapi.RegisterTTRPCSandboxService(server, sandbox)
	}
	return nil
}
