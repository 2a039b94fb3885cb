// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil/isolate"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/node"
)

// NodeName is the only node's.
const NodeName = "edge"

// RequestTimeout is kubelet's runtimeRequestTimeout as it comes.
const RequestTimeout = 2 * time.Minute

// kubeletConfig differs from what comes by default where a nested machine, a full
// disk or a control group of version 1 would stop kubelet, and where a test
// would wait long.
const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: %[1]s
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
clusterDNS: [%[1]s]
clusterDomain: cluster.local
containerRuntimeEndpoint: %[2]s
runtimeRequestTimeout: %[3]s
cgroupDriver: cgroupfs
cgroupRoot: %[4]s
failCgroupV1: false
failSwapOn: false
oomScoreAdj: 0
protectKernelDefaults: true
makeIPTablesUtilChains: false
evictionHard: {memory.available: 50Mi, nodefs.available: 1%%, imagefs.available: 1%%}
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
volumePluginDir: %[5]s/plugins
volumeStatsAggPeriod: 2s
crashLoopBackOff: {maxContainerRestartPeriod: 1s}
`

// startKubelet starts kubelet with a runtimeRequestTimeout, and returns when its
// node is ready.
func (c *Cluster) startKubelet(ctx context.Context, timeout time.Duration) error {
	if err := node.MakeCgroup(isolate.Cgroup()); err != nil {
		return err
	}
	file := filepath.Join(dir, "kubelet.yaml")
	text := fmt.Sprintf(kubeletConfig, node.Address, node.Endpoint, timeout, isolate.Cgroup(), dir)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		return err
	}
	since := time.Now().Truncate(time.Second) // what an API object keeps of a time
	var err error
	c.kubelet, err = c.start("kubelet", "--config="+file, "--kubeconfig="+Kubeconfig, "--hostname-override="+NodeName,
		"--node-ip="+node.Address, "--root-dir="+KubeletRoot)
	if err != nil {
		return err
	}
	return c.poll(ctx, time.Minute, func(ctx context.Context) error { return c.nodeReady(ctx, since) })
}

// nodeReady succeeds when kubelet has said since then that its node is ready.
func (c *Cluster) nodeReady(ctx context.Context, since time.Time) error {
	found, err := c.Client.CoreV1().Nodes().Get(ctx, NodeName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if len(found.Spec.Taints) > 0 {
		return fmt.Errorf("node %s has taints: %v", NodeName, found.Spec.Taints)
	}
	for _, condition := range found.Status.Conditions {
		if condition.Type != corev1.NodeReady {
			continue
		}
		if condition.Status == corev1.ConditionTrue && !condition.LastHeartbeatTime.Time.Before(since) {
			return nil
		}
		return fmt.Errorf("node %s is not ready: %s", NodeName, condition.Message)
	}
	return fmt.Errorf("node %s has no state yet", NodeName)
}

// RestartKubelet stops kubelet and starts it with a runtimeRequestTimeout. Pods
// keep running.
func (c *Cluster) RestartKubelet(ctx context.Context, timeout time.Duration) error {
	c.kubelet.stop(20 * time.Second)
	if err := c.startKubelet(ctx, timeout); err != nil {
		return fmt.Errorf("restart kubelet: %w", err)
	}
	return nil
}
