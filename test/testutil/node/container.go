// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil/image"
)

// ContainerSpec is what a test says of a container. The zero value waits.
type ContainerSpec struct {
	Name   string   // unique in the pod
	Args   []string // of the workload; "pause" by default
	Env    map[string]string
	Mounts []Mount
	// Annotations are the pod's annotations at the time this container is
	// made; nil means that they are still those of the sandbox.
	Annotations map[string]string
	// User is the uid to run as.
	User int64
	// Tweak changes the request in ways that few tests need.
	Tweak func(*runtimeapi.ContainerConfig)
}

// Mount is a volume in a container.
type Mount struct {
	Volume   string
	Path     string
	SubPath  string
	ReadOnly bool
}

// Container is a container of a pod.
type Container struct {
	ID   string
	Spec ContainerSpec

	pod     *Pod
	logPath string
}

// Start creates and starts a container.
func (p *Pod) Start(ctx context.Context, spec ContainerSpec) (*Container, error) {
	c, err := p.Create(ctx, spec)
	if err != nil {
		return nil, err
	}
	if _, err := p.node.CRI.StartContainer(ctx, &runtimeapi.StartContainerRequest{ContainerId: c.ID}); err != nil {
		return nil, err
	}
	return c, nil
}

// Create creates a container without starting it. To containerd that is only
// a record and a snapshot: its shim hears of it at the start.
func (p *Pod) Create(ctx context.Context, spec ContainerSpec) (*Container, error) {
	attempt := len(p.containers)
	if spec.Name == "" {
		spec.Name = fmt.Sprintf("container-%d", attempt)
	}
	annotations := spec.Annotations
	if annotations == nil {
		annotations = p.Spec.Annotations
	}
	config, err := p.containerConfig(spec, uint32(attempt))
	if err != nil {
		return nil, err
	}
	sandbox := p.config(annotations)
	sandbox.Metadata.Attempt = p.attempt - 1
	reply, err := p.node.CRI.CreateContainer(ctx, &runtimeapi.CreateContainerRequest{
		PodSandboxId: p.ID, Config: config, SandboxConfig: sandbox,
	})
	if err != nil {
		return nil, err
	}
	c := &Container{ID: reply.ContainerId, Spec: spec, pod: p, logPath: filepath.Join(p.LogDir(), config.LogPath)}
	p.containers = append(p.containers, c)
	return c, nil
}

func (p *Pod) containerConfig(spec ContainerSpec, attempt uint32) (*runtimeapi.ContainerConfig, error) {
	args := spec.Args
	if args == nil {
		args = []string{"pause"}
	}
	config := &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: spec.Name, Attempt: attempt},
		Image:    &runtimeapi.ImageSpec{Image: Image},
		Args:     args,
		LogPath:  filepath.Join(spec.Name, fmt.Sprintf("%d.log", attempt)),
		Labels:   map[string]string{"io.kubernetes.container.name": spec.Name, "io.kubernetes.pod.uid": p.UID},
		Linux: &runtimeapi.LinuxContainerConfig{
			Resources: &runtimeapi.LinuxContainerResources{CpuShares: 2},
			SecurityContext: &runtimeapi.LinuxContainerSecurityContext{
				NamespaceOptions: &runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_CONTAINER},
			},
		},
	}
	if spec.User != 0 {
		config.Linux.SecurityContext.RunAsUser = &runtimeapi.Int64Value{Value: spec.User}
	}
	for name, value := range spec.Env {
		config.Envs = append(config.Envs, &runtimeapi.KeyValue{Key: name, Value: []byte(value)})
	}
	for i, mount := range spec.Mounts {
		source := p.VolumeDir(mount.Volume)
		if mount.SubPath != "" {
			var err error
			if source, err = subPath(p.dir(), mount.Volume, filepath.Join(source, mount.SubPath), spec.Name, i); err != nil {
				return nil, err
			}
		}
		config.Mounts = append(config.Mounts, &runtimeapi.Mount{
			HostPath: source, ContainerPath: mount.Path, Readonly: mount.ReadOnly,
		})
	}
	if spec.Tweak != nil {
		spec.Tweak(config)
	}
	return config, os.MkdirAll(filepath.Join(p.LogDir(), spec.Name), 0o755)
}

// ExitError is a program that ran and did not exit with 0.
type ExitError struct {
	Args   []string
	Code   int32
	Stderr string
}

func (e *ExitError) Error() string {
	return fmt.Sprintf("%s: exit code %d: %s", strings.Join(e.Args, " "), e.Code, strings.TrimSpace(e.Stderr))
}

// Exec runs the workload with other arguments in the container and returns
// what it printed.
func (c *Container) Exec(ctx context.Context, args ...string) (string, error) {
	reply, err := c.exec(ctx, args...)
	for range missedExecs {
		if err == nil || !strings.Contains(err.Error(), missedExec) {
			break
		}
		reply, err = c.exec(ctx, args...)
	}
	if err != nil {
		return "", fmt.Errorf("exec %s: %w", strings.Join(args, " "), err)
	}
	if reply.ExitCode != 0 {
		return string(reply.Stdout), &ExitError{Args: args, Code: reply.ExitCode, Stderr: string(reply.Stderr)}
	}
	return string(reply.Stdout), nil
}

// missedExec is what `runsc exec` ends with under any shim when a command has
// failed already by the time that it looks for it the first time, gvisor
// runsc/specutils/specutils.go:WaitForReady.
const (
	missedExec  = "OCI runtime exec failed: runsc did not terminate successfully"
	missedExecs = 3
)

func (c *Container) exec(ctx context.Context, args ...string) (*runtimeapi.ExecSyncResponse, error) {
	return c.pod.node.CRI.ExecSync(ctx, &runtimeapi.ExecSyncRequest{
		ContainerId: c.ID, Cmd: append([]string{image.Binary}, args...), Timeout: 120,
	})
}

// Wait waits until the container has ended and returns its exit code.
func (c *Container) Wait(ctx context.Context, timeout time.Duration) (int32, error) {
	var code int32
	err := Poll(ctx, timeout, func(ctx context.Context) error {
		reply, err := c.pod.node.CRI.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: c.ID})
		if err != nil {
			return err
		}
		if reply.Status.State != runtimeapi.ContainerState_CONTAINER_EXITED {
			return fmt.Errorf("container %s is %s", c.Spec.Name, reply.Status.State)
		}
		code = reply.Status.ExitCode
		return nil
	})
	return code, err
}

// Stop stops the container, with a second to end by itself, and removes it.
func (c *Container) Stop(ctx context.Context) error {
	if _, err := c.pod.node.CRI.StopContainer(ctx, &runtimeapi.StopContainerRequest{ContainerId: c.ID, Timeout: 1}); err != nil {
		return fmt.Errorf("stop container %s: %w", c.Spec.Name, err)
	}
	if _, err := c.pod.node.CRI.RemoveContainer(ctx, &runtimeapi.RemoveContainerRequest{ContainerId: c.ID}); err != nil {
		return fmt.Errorf("remove container %s: %w", c.Spec.Name, err)
	}
	return nil
}

// Output is what the container itself has printed so far.
func (c *Container) Output() (string, error) {
	content, err := os.ReadFile(c.logPath)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for line := range strings.Lines(string(content)) {
		// "2026-11-30T12:00:00.000000000Z stdout F text", or P for a part.
		fields := strings.SplitN(line, " ", 4)
		if len(fields) != 4 {
			return "", fmt.Errorf("not a line of a CRI log: %q", line)
		}
		text := fields[3]
		if fields[2] == "P" {
			text = strings.TrimSuffix(text, "\n")
		}
		out.WriteString(text)
	}
	return out.String(), nil
}
