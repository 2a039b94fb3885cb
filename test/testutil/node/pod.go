// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// PodSpec is what a test says of a pod. The zero value is a plain pod.
type PodSpec struct {
	Namespace   string // "default"
	Name        string // unique
	Handler     string // Sedna; NoHandler leaves it to containerd
	Annotations map[string]string
	Volumes     []Volume
	// KubeletRoot is where the pod's folder is, the node's KubeletRoot by default.
	KubeletRoot string
	HostNetwork bool
	// Memory is the limit of the pod's cgroup, 0 for none: kubelet sums up what
	// its containers may have.
	Memory int64
	// DNS servers of the pod; the node's own by default.
	DNS []string
	// Tweak changes the request in ways that few tests need.
	Tweak func(*runtimeapi.PodSandboxConfig)
}

// Pod is a pod on the node, running or not.
type Pod struct {
	Spec PodSpec
	UID  string
	// ID of the sandbox, "" while there is none.
	ID string

	node       *Node
	attempt    uint32
	containers []*Container
}

// NewPod makes what kubelet makes before it asks for a sandbox: volumes,
// cgroup, log folder.
func (n *Node) NewPod(spec PodSpec) (*Pod, error) {
	n.pods++
	if spec.Namespace == "" {
		spec.Namespace = "default"
	}
	if spec.Name == "" {
		spec.Name = fmt.Sprintf("pod-%d", n.pods)
	}
	if spec.Handler == "" {
		spec.Handler = Sedna
	}
	if spec.KubeletRoot == "" {
		spec.KubeletRoot = KubeletRoot
	}
	p := &Pod{Spec: spec, UID: uuid.NewString(), node: n}
	if err := p.prepare(); err != nil {
		return nil, errors.Join(fmt.Errorf("prepare pod %s: %w", spec.Name, err), p.Destroy())
	}
	return p, nil
}

func (p *Pod) prepare() error {
	if err := os.MkdirAll(p.LogDir(), 0o755); err != nil {
		return err
	}
	if err := os.MkdirAll(p.dir(), 0o750); err != nil {
		return err
	}
	for _, volume := range p.Spec.Volumes {
		if err := volume.mount(p.dir()); err != nil {
			return err
		}
	}
	if err := MakeCgroup(podCgroup(p.UID)); err != nil {
		return err
	}
	return limitMemory(p.UID, p.Spec.Memory)
}

// Run asks for the pod's sandbox. It can be called again after a failure or
// after Remove: a new attempt of the same pod, with its volumes as they are.
func (p *Pod) Run(ctx context.Context) error {
	config := p.config(p.Spec.Annotations)
	p.attempt++
	handler := p.Spec.Handler
	if handler == NoHandler {
		handler = ""
	}
	reply, err := p.node.CRI.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: config, RuntimeHandler: handler})
	if err != nil {
		return err
	}
	p.ID = reply.PodSandboxId
	return nil
}

// config is what kubelet sends, with the pod's annotations as they are now.
func (p *Pod) config(annotations map[string]string) *runtimeapi.PodSandboxConfig {
	network := runtimeapi.NamespaceMode_POD
	if p.Spec.HostNetwork {
		network = runtimeapi.NamespaceMode_NODE
	}
	servers := p.Spec.DNS
	if servers == nil {
		servers = []string{Address}
	}
	config := &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{
			Name: p.Spec.Name, Namespace: p.Spec.Namespace, Uid: p.UID, Attempt: p.attempt,
		},
		LogDirectory: p.LogDir(),
		DnsConfig: &runtimeapi.DNSConfig{
			Servers:  servers,
			Searches: []string{p.Spec.Namespace + ".svc.cluster.local", "svc.cluster.local", "cluster.local"},
			Options:  []string{"ndots:5"},
		},
		Annotations: annotations,
		Labels: map[string]string{
			"io.kubernetes.pod.name": p.Spec.Name, "io.kubernetes.pod.namespace": p.Spec.Namespace, "io.kubernetes.pod.uid": p.UID,
		},
		Linux: &runtimeapi.LinuxPodSandboxConfig{
			CgroupParent: podCgroup(p.UID),
			SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
				NamespaceOptions: &runtimeapi.NamespaceOption{Network: network, Pid: runtimeapi.NamespaceMode_CONTAINER},
			},
		},
	}
	if !p.Spec.HostNetwork {
		config.Hostname = p.Spec.Name
	}
	if p.Spec.Tweak != nil {
		p.Spec.Tweak(config)
	}
	return config
}

// LogDir has the name from which gVisor reads the pod's uid, kubernetes
// pkg/kubelet/kuberuntime/helpers.go:BuildPodLogsDirectory.
func (p *Pod) LogDir() string {
	return filepath.Join(Dir, "pods", p.Spec.Namespace+"_"+p.Spec.Name+"_"+p.UID)
}

// dir is the pod's folder on the node, kubernetes
// pkg/kubelet/kubelet_getters.go:getPodDir.
func (p *Pod) dir() string { return filepath.Join(p.Spec.KubeletRoot, "pods", p.UID) }

// VolumeDir is a volume's folder on the node.
func (p *Pod) VolumeDir(name string) string {
	for _, volume := range p.Spec.Volumes {
		if volume.Name == name {
			return volume.dir(p.dir())
		}
	}
	return ""
}

// removeTimeout is how long kubelet's ways of removing a pod are tried.
const removeTimeout = time.Minute

// Remove stops and removes the pod's sandboxes with their containers, as kubelet
// does: all that the CRI lists for the pod, again until it works, since after a
// crash containerd learns only by and by what still runs. The pod's volumes
// stay, as they do when kubelet makes a new sandbox.
func (p *Pod) Remove(ctx context.Context) error {
	err := Poll(ctx, removeTimeout, func(ctx context.Context) error {
		reply, err := p.node.CRI.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{Filter: &runtimeapi.PodSandboxFilter{
			LabelSelector: map[string]string{"io.kubernetes.pod.uid": p.UID},
		}})
		if err != nil {
			return err
		}
		for _, sandbox := range reply.Items {
			if err := p.node.removeSandbox(ctx, sandbox.Id); err != nil {
				return fmt.Errorf("%s: %w", p.Spec.Name, err)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	p.ID, p.containers = "", nil
	return nil
}

func (n *Node) removeSandbox(ctx context.Context, id string) error {
	if _, err := n.CRI.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: id}); err != nil {
		return fmt.Errorf("stop sandbox: %w", err)
	}
	if _, err := n.CRI.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: id}); err != nil {
		return fmt.Errorf("remove sandbox: %w", err)
	}
	return nil
}

// Destroy removes the rest: volumes, cgroup, logs.
func (p *Pod) Destroy() error {
	return errors.Join(
		unmountBelow(p.dir()),
		os.RemoveAll(p.dir()),
		os.RemoveAll(p.LogDir()),
		removeCgroup(p.UID))
}
