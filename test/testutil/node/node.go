// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil/binaries"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/dns"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/image"
)

// Node is a running containerd with a pod network.
type Node struct {
	CRI runtimeapi.RuntimeServiceClient
	// DNS is the name server that pods ask.
	DNS *dns.Server
	// ReadyAfter and ImagesAfter are how long containerd took to be ready, and
	// the images to be imported after that.
	ReadyAfter, ImagesAfter time.Duration

	images runtimeapi.ImageServiceClient
	conn   *grpc.ClientConn
	opts   Options

	containerd *exec.Cmd
	helpers    map[int]bool // processes that belong to the node, by pid
	before     baseline
	networks   []Network
	pods       int // made so far, for names
}

// Start starts a node and returns when it can run pods. There is one per
// process: the places it uses are fixed.
func Start(ctx context.Context, opts Options) (*Node, error) {
	n := &Node{helpers: map[int]bool{}, opts: opts}
	if err := n.start(ctx, opts); err != nil {
		err = fmt.Errorf("start node: %w\nend of containerd's log:\n%s", err, n.Log(0, 40))
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

func (n *Node) start(ctx context.Context, opts Options) error {
	n.networks = opts.networks()
	for _, network := range n.networks {
		if err := network.make(); err != nil {
			return err
		}
	}
	var err error
	if n.DNS, err = dns.Start(Address); err != nil {
		return err
	}
	if err := writeConfig(opts); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(KubeletRoot, "pods"), 0o750); err != nil {
		return err
	}
	began := time.Now()
	if err := n.startDaemon(ctx); err != nil {
		return err
	}
	n.ReadyAfter = time.Since(began)
	began = time.Now()
	if err := n.loadImages(ctx); err != nil {
		return err
	}
	n.ImagesAfter = time.Since(began)
	return n.TakeBaseline()
}

// TakeBaseline says that what is there now belongs to the node: it is no leftover.
func (n *Node) TakeBaseline() (err error) {
	n.before, err = takeBaseline()
	return err
}

// startDaemon starts containerd and waits until it can run pods.
func (n *Node) startDaemon(ctx context.Context) error {
	cmd, err := startContainerd()
	if err != nil {
		return err
	}
	n.containerd = cmd
	n.Adopt(cmd.Process.Pid)
	n.conn, err = grpc.NewClient(Endpoint,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 1.2, MaxDelay: 200 * time.Millisecond},
			MinConnectTimeout: 5 * time.Second,
		}))
	if err != nil {
		return fmt.Errorf("dial containerd: %w", err)
	}
	n.CRI = runtimeapi.NewRuntimeServiceClient(n.conn)
	n.images = runtimeapi.NewImageServiceClient(n.conn)
	return Poll(ctx, time.Minute, n.ready)
}

// ready asks what kubelet asks before it starts pods.
func (n *Node) ready(ctx context.Context) error {
	reply, err := n.CRI.Status(ctx, &runtimeapi.StatusRequest{})
	if err != nil {
		return fmt.Errorf("ask containerd for its status: %w", err)
	}
	for _, condition := range reply.Status.Conditions {
		needed := condition.Type == runtimeapi.RuntimeReady || condition.Type == runtimeapi.NetworkReady
		if needed && !condition.Status {
			return fmt.Errorf("containerd: %s: %s: %s", condition.Type, condition.Reason, condition.Message)
		}
	}
	return nil
}

func (n *Node) loadImages(ctx context.Context) error {
	ours, _, err := binaries.Dirs()
	if err != nil {
		return err
	}
	archive := filepath.Join(Dir, "workload.tar")
	if err := image.Write(archive, filepath.Join(ours, binaries.Workload), []string{"pause"}, Image, pauseImage); err != nil {
		return err
	}
	if err := ctr(ctx, "images", "import", archive); err != nil {
		return err
	}
	// The CRI hears of the image by an event.
	return Poll(ctx, 5*time.Second, func(ctx context.Context) error {
		for _, name := range []string{Image, pauseImage} {
			reply, err := n.images.ImageStatus(ctx, &runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: name}})
			if err != nil {
				return err
			}
			if reply.Image == nil {
				return fmt.Errorf("the CRI doesn't know image %s", name)
			}
		}
		return nil
	})
}

// Adopt says that a process belongs to the node: it is no leftover.
func (n *Node) Adopt(pid int) { n.helpers[pid] = true }

// Restart stops containerd, by a SIGKILL when kill is set, and starts it again.
// Pods keep running.
func (n *Node) Restart(ctx context.Context, kill bool) error {
	if err := n.stopDaemon(kill); err != nil {
		return err
	}
	return n.startDaemon(ctx)
}

// Upgrade puts another version of containerd in the place of this one, see
// binaries.Containerd. Pods keep running.
func (n *Node) Upgrade(ctx context.Context, version string) error {
	if err := n.stopDaemon(false); err != nil {
		return err
	}
	if err := binaries.UseContainerd(version); err != nil {
		return err
	}
	if err := writeConfig(n.opts); err != nil {
		return err
	}
	return n.startDaemon(ctx)
}

func (n *Node) stopDaemon(kill bool) error {
	if n.conn != nil {
		_ = n.conn.Close()
	}
	if n.containerd == nil {
		return nil
	}
	signal := unix.SIGTERM
	if kill {
		signal = unix.SIGKILL
	}
	if err := n.containerd.Process.Signal(signal); err != nil {
		return fmt.Errorf("stop containerd: %w", err)
	}
	delete(n.helpers, n.containerd.Process.Pid)
	_ = n.containerd.Wait() // its exit code says nothing: we asked for it
	n.containerd = nil
	return nil
}

// Clear removes what others than the harness have left on the node: every pod
// that the CRI knows, mounts below dir, and cgroups of pods that named no parent.
func (n *Node) Clear(ctx context.Context, dir string) error {
	reply, err := n.CRI.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	var errs []error
	for _, pod := range reply.Items {
		errs = append(errs, n.removeSandbox(ctx, pod.Id))
	}
	return errors.Join(append(errs, unmountBelow(dir), n.removeOrphanedCgroups())...)
}

// Close stops containerd and removes the network. Pods should be gone.
func (n *Node) Close() error {
	if n.DNS != nil {
		_ = n.DNS.Close()
	}
	errs := []error{n.stopDaemon(false)}
	for _, network := range n.networks {
		errs = append(errs, network.remove())
	}
	return errors.Join(append(errs, unmountBelow(Dir), os.RemoveAll(Dir))...)
}

// LogSize is a place in the log, for Log.
func (n *Node) LogSize() int64 {
	info, err := os.Stat(logFile)
	if err != nil {
		return 0
	}
	return info.Size()
}

// Log is the end of what containerd and the shims have logged since a place.
func (n *Node) Log(since int64, lines int) string {
	content, err := os.ReadFile(logFile)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(content[min(since, int64(len(content))):]), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// Patience is d, or several times that on a machine that is slow by nature, as
// that of test/cgroup2 says by its environment.
func Patience(d time.Duration) time.Duration {
	if times, err := strconv.Atoi(os.Getenv("SEDNA_TEST_PATIENCE")); err == nil {
		return d * time.Duration(times)
	}
	return d
}

// Poll calls check until it succeeds, and returns its last error after timeout.
func Poll(ctx context.Context, timeout time.Duration, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, Patience(timeout))
	defer cancel()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	var last error
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		// A call that the timeout has cut off says less than the one before it.
		if last == nil || ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return last
		case <-ticker.C:
		}
	}
}
