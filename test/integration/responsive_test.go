// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	taskapi "github.com/containerd/containerd/api/runtime/task/v2"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/errdefs"
	"github.com/containerd/errdefs/pkg/errgrpc"
	"github.com/containerd/ttrpc"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/binaries"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/node"
)

// dialShim speaks to the one shim that runs. It returns the sandbox's id too.
func dialShim(t *testing.T) (taskapi.TaskService, string) {
	t.Helper()
	process, err := oneShim()
	if err != nil {
		t.Fatal(err)
	}
	return dial(t, process)
}

// dial speaks to a shim as containerd does.
func dial(t *testing.T, process node.Process) (taskapi.TaskService, string) {
	t.Helper()
	bundle, err := process.Dir()
	if err != nil {
		t.Fatal(err)
	}
	address, err := os.ReadFile(filepath.Join(bundle, "address"))
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("unix", strings.TrimPrefix(string(address), "unix://"))
	if err != nil {
		t.Fatal(err)
	}
	client := ttrpc.NewClient(conn)
	t.Cleanup(func() { client.Close() })
	return taskapi.NewTaskClient(client), filepath.Base(bundle)
}

// shims are the shim's processes that serve, without its other commands.
func shims() ([]node.Process, error) {
	found, err := node.Find(binaries.Shim)
	return slices.DeleteFunc(found, func(p node.Process) bool {
		return len(p.Args) < 3 || p.Args[len(p.Args)-2] != "-id" // a command, or -info
	}), err
}

// oneShim returns the one that serves.
func oneShim() (node.Process, error) {
	found, err := shims()
	if err == nil && len(found) != 1 {
		err = fmt.Errorf("shims: %v; want one", found)
	}
	if err != nil {
		return node.Process{}, err
	}
	return found[0], nil
}

// While a Create downloads, containerd gets an answer to everything else, and
// whatever ends the container ends the download.
func TestShimAnswersWhileItDownloads(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(ctx context.Context, shim taskapi.TaskService, id string) error
	}{
		{"kill", func(ctx context.Context, shim taskapi.TaskService, id string) error {
			_, err := shim.Kill(ctx, &taskapi.KillRequest{ID: id, Signal: 9})
			return err
		}},
		{"delete", func(ctx context.Context, shim taskapi.TaskService, id string) error {
			_, err := shim.Delete(ctx, &taskapi.DeleteRequest{ID: id})
			if errdefs.IsNotFound(errgrpc.ToNative(err)) {
				return nil // what containerd takes for a container that isn't there yet
			}
			return err
		}},
		{"shutdown", func(ctx context.Context, shim taskapi.TaskService, id string) error {
			_, err := shim.Shutdown(ctx, &taskapi.ShutdownRequest{ID: id})
			return err
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHalfway(t, node.Sedna)
			h.interrupt(t, testutil.Context(t), func() {
				shim, id := dialShim(t)
				ctx, cancel := context.WithTimeout(namespaces.WithNamespace(testutil.Context(t), "k8s.io"), 5*time.Second)
				defer cancel()
				if _, err := shim.State(ctx, &taskapi.StateRequest{ID: id}); !errdefs.IsNotFound(errgrpc.ToNative(err)) {
					t.Errorf("State: got %v, want that there is no such container yet", err)
				}
				if reply, err := shim.Connect(ctx, &taskapi.ConnectRequest{ID: id}); err != nil || reply.ShimPid == 0 {
					t.Errorf("Connect: %v, %v", reply, err)
				}
				if err := tt.end(ctx, shim, id); err != nil {
					t.Errorf("%s: %v", tt.name, err)
				}
			})
			h.succeeds(t)
		})
	}
}
