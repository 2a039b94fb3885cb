// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil/binaries"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/node"
)

// Where things are.
const (
	dir         = "/run/sedna-e2e"
	KubeletRoot = "/var/lib/kubelet"
	PodLogs     = "/var/log/pods"
)

// The programs of `make tools-e2e`.
var programs = []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kubectl"}

// Missing says what has to be built before a cluster can start, or is "".
func Missing() string {
	if reason := binaries.Missing(); reason != "" {
		return reason
	}
	_, tools, err := binaries.Dirs()
	if err != nil {
		return err.Error()
	}
	for _, program := range programs {
		if _, err := os.Stat(filepath.Join(tools, program)); err != nil {
			return fmt.Sprintf("bin/tools lacks %s: run `make e2e`", program)
		}
	}
	return ""
}

// Cluster is a running Kubernetes.
type Cluster struct {
	Client *kubernetes.Clientset
	Node   *node.Node

	tools      string
	token      string
	components []*component // all but kubelet, in the order of their start
	kubelet    *component
}

// Start starts containerd and Kubernetes, and returns when pods can run. There
// is one per process: the places it uses are fixed.
func Start(ctx context.Context) (*Cluster, error) {
	c := &Cluster{token: rand.Text()}
	if err := c.startAll(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start cluster: %w", err), c.Close())
	}
	return c, nil
}

func (c *Cluster) startAll(ctx context.Context) error {
	var err error
	if _, c.tools, err = binaries.Dirs(); err != nil {
		return err
	}
	root, err := binaries.Root()
	if err != nil {
		return err
	}
	deploy := filepath.Join(root, "deploy")
	if err := furnish(); err != nil {
		return err
	}
	if err := install(filepath.Join(deploy, "config.toml"), "/etc/containerd/sedna/config.toml"); err != nil {
		return err
	}
	c.Node, err = node.Start(ctx, node.Options{Imports: []string{filepath.Join(deploy, "containerd-config-v3.toml")}})
	if err != nil {
		return err
	}
	if err := c.startControl(ctx); err != nil {
		return err
	}
	if err := c.startKubelet(ctx, RequestTimeout); err != nil {
		return fmt.Errorf("start kubelet: %w", err)
	}
	if _, err := c.Kubectl(ctx, "apply", "-f", filepath.Join(deploy, "runtimeclass.yaml")); err != nil {
		return err
	}
	if err := c.applyText(ctx, gvisorClass); err != nil {
		return err
	}
	return c.Node.TakeBaseline()
}

// gvisorClass is gVisor's own shim, to compare with.
const gvisorClass = `{"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "gvisor"}, "handler": "` + node.Runsc + `"}`

// install copies a file as the documentation tells people to.
func install(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, content, 0o644)
}

// Close ends everything. Pods should be gone. The API server waits on SIGTERM
// for clients that watch, so the control plane gets no time.
func (c *Cluster) Close() error {
	if c.kubelet != nil {
		c.kubelet.stop(10 * time.Second)
	}
	for _, p := range c.components {
		p.stop(0)
	}
	if c.Node == nil {
		return nil
	}
	return c.Node.Close()
}

// Logs is the end of what each component has logged.
func (c *Cluster) Logs(lines int) string {
	var text strings.Builder
	for _, p := range c.running() {
		fmt.Fprintf(&text, "--- end of %s's log:\n%s\n", p.name, tail(p.log, lines))
	}
	return text.String()
}

// running are all components that have been started.
func (c *Cluster) running() []*component {
	if c.kubelet == nil {
		return c.components
	}
	return append(slices.Clip(c.components), c.kubelet)
}

// poll is node.Poll, which ends at once when a component has ended.
func (c *Cluster) poll(ctx context.Context, timeout time.Duration, check func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	err := node.Poll(ctx, timeout, func(ctx context.Context) error {
		for _, p := range c.running() {
			if err := p.alive(); err != nil {
				cancel(err)
				return err
			}
		}
		return check(ctx)
	})
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}
