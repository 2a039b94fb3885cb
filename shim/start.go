// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/containerd/containerd/v2/pkg/namespaces"
	containerdshim "github.com/containerd/containerd/v2/pkg/shim"
	"golang.org/x/sys/unix"

	"github.com/sedna-io/containerd-shim-sedna/internal/config"
	"github.com/sedna-io/containerd-shim-sedna/shim/bundle"
)

// Manager implements containerd's start, delete and -info commands of a shim
// binary. They run with the bundle as their working directory.
type Manager struct{ name string }

var _ containerdshim.Manager = Manager{}

// NewManager returns a Manager for the runtime called name.
func NewManager(name string) Manager { return Manager{name: name} }

// Name implements containerdshim.Manager.
func (m Manager) Name() string { return m.name }

// configPathFile in a bundle holds the path of the node's config.toml: the
// `delete` command isn't told the runtime options.
const configPathFile = "sedna-config-path"

// Start implements containerdshim.Manager: it starts the shim process of a pod,
// or finds the one that serves it already. containerd reads stdout and stderr
// together as the answer, so nothing is logged here.
func (m Manager) Start(ctx context.Context, id string, opts containerdshim.StartOpts) (containerdshim.BootstrapParams, error) {
	none := containerdshim.BootstrapParams{}
	ns, err := namespaces.NamespaceRequired(ctx)
	if err != nil {
		return none, err
	}
	boot, err := readBootstrap(os.Stdin, id, ns)
	if err != nil {
		return none, err
	}
	cfg, err := config.Load(boot.ConfigPath)
	if err != nil {
		return none, fmt.Errorf("the node's configuration: %w", err)
	}
	if err := findRunsc(cfg.BinaryName); err != nil {
		return none, err
	}
	if err := os.WriteFile(configPathFile, []byte(boot.ConfigPath), 0o600); err != nil {
		return none, fmt.Errorf("keep the configuration's path: %w", err)
	}
	group, err := groupOf(id, cfg.Shim.Grouping)
	if err != nil {
		return none, err
	}
	address, err := socketAddress(ctx, boot.SocketDir, opts.Address, group)
	if err != nil {
		return none, err
	}
	if err := serve(ns, id, address, opts); err != nil {
		return none, err
	}
	return containerdshim.BootstrapParams{Version: 2, Address: address, Protocol: "ttrpc"}, nil
}

// findRunsc looks for runsc before anything is downloaded for it. The PATH is
// containerd's, which nobody sees.
func findRunsc(name string) error {
	if name == "" {
		name = "runsc"
	}
	if _, err := exec.LookPath(name); err != nil {
		return fmt.Errorf("gVisor's %s is not found on containerd's PATH (%s): install it there, or set binary_name to its path: %w",
			name, os.Getenv("PATH"), err)
	}
	return nil
}

// groupOf returns the id whose shim serves this container: its sandbox's, or
// its own.
func groupOf(id string, grouping bool) (string, error) {
	data, err := os.ReadFile("config.json")
	switch {
	case errors.Is(err, fs.ErrNotExist):
		// containerd core/sandbox: its sandbox API starts a shim without a spec.
		return "", errors.New(`the bundle has no config.json, as for a handler with sandboxer = "shim", which gVisor's shim doesn't implement: ` +
			`take that line out of the handler in containerd's configuration`)
	case !grouping:
		return id, nil
	case err != nil:
		return "", fmt.Errorf("read the bundle: %w", err)
	}
	var spec struct {
		Annotations map[string]string `json:"annotations"`
	}
	if err := json.Unmarshal(data, &spec); err != nil {
		return "", fmt.Errorf("read the bundle's config.json: %w", err)
	}
	if err := bundle.CheckFacts(spec.Annotations); err != nil {
		return "", err
	}
	if sandbox, ok := bundle.SandboxID(spec.Annotations); ok {
		return sandbox, nil
	}
	return id, nil
}

// socketAddress names the socket of a pod's shim below dir, or where
// containerd's library puts it when dir is empty.
func socketAddress(ctx context.Context, dir, containerd, group string) (string, error) {
	if dir == "" {
		return containerdshim.SocketAddress(ctx, containerd, group, false)
	}
	ns, err := namespaces.NamespaceRequired(ctx)
	if err != nil {
		return "", err
	}
	name := sha256.Sum256([]byte(filepath.Join(containerd, ns, group)))
	return fmt.Sprintf("unix://%s/%x", dir, name), nil
}

// serve makes sure that a shim process listens at address.
func serve(ns, id, address string, opts containerdshim.StartOpts) error {
	if containerdshim.CanConnect(address) {
		return writeAddress(address)
	}
	if err := writeAddress(address); err != nil {
		return err
	}
	// The process is there before its socket: whenever this command is killed,
	// somebody is left to remove it.
	p, err := launch(ns, id, address, opts)
	if err != nil {
		return err
	}
	defer p.hand.Close()
	socket, err := newSocket(address)
	if err == nil {
		defer socket.Close()
		err = p.give(socket)
	}
	if err != nil {
		p.kill()
		if containerdshim.SocketEaddrinuse(err) && containerdshim.CanConnect(address) {
			return nil // another command was faster
		}
		_ = containerdshim.RemoveSocket(address)
		return fmt.Errorf("create the shim's socket: %w", err)
	}
	return nil
}

// newSocket listens at address, also where a shim that was killed has left its
// socket. Closing it leaves it to whoever it was given to.
func newSocket(address string) (*net.UnixListener, error) {
	socket, err := containerdshim.NewSocket(address)
	if containerdshim.SocketEaddrinuse(err) && !containerdshim.CanConnect(address) {
		if err := containerdshim.RemoveSocket(address); err != nil {
			return nil, fmt.Errorf("remove a dead shim's: %w", err)
		}
		socket, err = containerdshim.NewSocket(address)
	}
	if err != nil {
		return nil, err
	}
	socket.SetUnlinkOnClose(false)
	return socket, nil
}

// newProcess is a shim process that waits for its socket.
type newProcess struct {
	cmd  *exec.Cmd
	hand *os.File // reaches it
}

// launch starts the shim process. containerd's library expects the socket as its
// file descriptor 3; it comes by the one above, see EndWithStart.
func launch(ns, id, address string, opts containerdshim.StartOpts) (*newProcess, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	place, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer place.Close()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("connect to the shim: %w", err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "start")
	defer theirs.Close()
	p := &newProcess{hand: os.NewFile(uintptr(pair[0]), "shim")}
	args := []string{"-namespace", ns, "-address", opts.Address, "-id", id}
	if opts.Debug {
		args = append(args, "-debug")
	}
	p.cmd = exec.Command(self, args...)
	p.cmd.Env = append(os.Environ(), "GOMAXPROCS=2", startedEnv+"="+address) // GOMAXPROCS as gVisor's shim: fewer stacks
	p.cmd.ExtraFiles = []*os.File{place, theirs}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		p.hand.Close()
		return nil, fmt.Errorf("start the shim: %w", err)
	}
	return p, nil
}

// give completes what containerd looks for, and hands over the socket: from then
// on the process serves.
func (p *newProcess) give(socket *net.UnixListener) error {
	if err := containerdshim.WritePidFile("shim.pid", p.cmd.Process.Pid); err != nil {
		return fmt.Errorf("write shim.pid: %w", err)
	}
	if err := adjustOOMScore(p.cmd.Process.Pid); err != nil {
		return err
	}
	f, err := socket.File()
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Sendmsg(int(p.hand.Fd()), []byte{1}, unix.UnixRights(int(f.Fd())), nil, 0); err != nil {
		return fmt.Errorf("hand it to the process: %w", err)
	}
	return nil
}

// kill ends the process before it serves.
func (p *newProcess) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// adjustOOMScore makes the shim one more killable than containerd. Lowering a
// score needs CAP_SYS_RESOURCE, which a nested containerd may not have: then
// the shim keeps the score it inherited.
func adjustOOMScore(pid int) error {
	err := containerdshim.AdjustOOMScore(pid)
	if err == nil || errors.Is(err, fs.ErrPermission) {
		return nil
	}
	return fmt.Errorf("adjust the shim's OOM score: %w", err)
}

// addressFile in a bundle is where containerd and gVisor's service look for
// the shim's socket.
const addressFile = "address"

func writeAddress(address string) error {
	if err := os.WriteFile(addressFile, []byte(address), 0o644); err != nil {
		return fmt.Errorf("write the shim's address: %w", err)
	}
	return nil
}
