// SPDX-License-Identifier: Apache-2.0

// Command gvisorshim makes gVisor's own shim, as it comes, measurable on
// machines without CAP_SYS_RESOURCE. The shim's `start` lowers the score of the
// OOM killer to -999 and fails where it may not (gvisor
// pkg/shim/v1/manager.go:Start). This program does `start` in its place without
// that step, and hands everything else to the untouched shim: the processes that
// serve, and whose time and memory are measured, are gVisor's own.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"syscall"

	"github.com/containerd/containerd/api/types"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/containerd/v2/pkg/shim"
	"github.com/containerd/containerd/v2/pkg/sys"
	gvisorshim "gvisor.dev/gvisor/pkg/shim/v1"
	"gvisor.dev/gvisor/pkg/shim/v1/runsc"
)

// server is gVisor's shim, built by test/tools.
const server = "containerd-shim-runsc-v1"

// oomScore is what gVisor's shim wants for itself.
const oomScore = -999

func main() {
	if !slices.Contains(os.Args, "start") {
		fail(becomeServer())
	}
	name := "io.containerd.runsc.v1"
	shim.Run(context.Background(), manager{name: name, next: gvisorshim.NewShimManager(name)})
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// becomeServer replaces this process.
func becomeServer() error {
	path, err := exec.LookPath(server)
	if err != nil {
		return err
	}
	return syscall.Exec(path, append([]string{path}, os.Args[1:]...), os.Environ())
}

type manager struct {
	name string
	next shim.Manager
}

func (m manager) Name() string { return m.name }

func (m manager) Stop(ctx context.Context, id string) (shim.StopStatus, error) {
	return m.next.Stop(ctx, id)
}

func (m manager) Info(ctx context.Context, options io.Reader) (*types.RuntimeInfo, error) {
	return m.next.Info(ctx, options)
}

// Start does what gVisor's does but for the last step.
func (m manager) Start(ctx context.Context, id string, opts shim.StartOpts) (shim.BootstrapParams, error) {
	group, err := groupOf(id)
	if err != nil {
		return shim.BootstrapParams{}, err
	}
	address, err := shim.SocketAddress(ctx, opts.Address, group, opts.Debug)
	if err != nil {
		return shim.BootstrapParams{}, err
	}
	params := shim.BootstrapParams{Version: 2, Address: address, Protocol: "ttrpc"}
	socket, err := shim.NewSocket(address)
	if shim.SocketEaddrinuse(err) && shim.CanConnect(address) {
		return params, writeAddress(address)
	}
	if err != nil {
		return shim.BootstrapParams{}, err
	}
	if err := writeAddress(address); err != nil {
		return shim.BootstrapParams{}, err
	}
	file, err := socket.File()
	if err != nil {
		return shim.BootstrapParams{}, err
	}
	return params, serve(ctx, id, opts, file)
}

// groupOf is the sandbox's id where the node's configuration asks for one shim
// per pod.
func groupOf(id string) (string, error) {
	if !runsc.GetRuntimeOptions().Grouping {
		return id, nil
	}
	data, err := os.ReadFile("config.json")
	if err != nil {
		return "", err
	}
	var spec struct {
		Annotations map[string]string `json:"annotations"`
	}
	if err := json.Unmarshal(data, &spec); err != nil {
		return "", err
	}
	if sandbox, ok := spec.Annotations["io.kubernetes.cri.sandbox-id"]; ok {
		return sandbox, nil
	}
	return id, nil
}

func serve(ctx context.Context, id string, opts shim.StartOpts, socket *os.File) error {
	namespace, err := namespaces.NamespaceRequired(ctx)
	if err != nil {
		return err
	}
	cmd := exec.Command(server, "-namespace", namespace, "-address", opts.Address, "-id", id)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=2")
	cmd.ExtraFiles = []*os.File{socket}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	if err := shim.WritePidFile("shim.pid", cmd.Process.Pid); err != nil {
		return err
	}
	if err := sys.SetOOMScore(cmd.Process.Pid, oomScore); !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return nil
}

func writeAddress(address string) error {
	return os.WriteFile("address", []byte(address), 0o644)
}
