// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/node"
)

// unanswered is what containerd logs when it can't learn after an exit whether
// memory was the reason.
const unanswered = "failed to get metrics for task"

func TestPodThatRunsOutOfMemoryIsOOMKilled(t *testing.T) {
	n := testutil.Node(t)
	pod := n.RunPod(t, node.PodSpec{Memory: 128 << 20})
	eater := pod.Start(t, node.ContainerSpec{Args: []string{"fill", "/dev/shm/all", fmt.Sprint(256 << 20)}})
	if code := eater.Wait(t); code == 0 {
		t.Error("it got more than there is")
	}
	if reason := waitReason(t, n, eater); reason != "OOMKilled" {
		t.Errorf("the container ended for %q", reason)
	}
}

func TestContainerThatEndsByItselfIsNotOOMKilled(t *testing.T) {
	n := testutil.Node(t)
	since := n.LogSize()
	container := n.RunPod(t, node.PodSpec{}).Start(t, node.ContainerSpec{Args: []string{"exit", "137"}})
	if code := container.Wait(t); code != 137 {
		t.Errorf("exit code is %d", code)
	}
	if reason := waitReason(t, n, container); reason != "Error" {
		t.Errorf("the container ended for %q", reason)
	}
	if log := lines(n.Log(since, 1000), unanswered); len(log) > 0 {
		t.Errorf("containerd could not learn why a container ended: %q", log)
	}
}

// The switch must really be one.
func TestStatsAreGVisorsOwnWhenTheNodeWantsThat(t *testing.T) {
	n := testutil.Node(t)
	n.Configure(t, configured, "full_stats = false\n")
	pod := n.RunPod(t, node.PodSpec{Handler: configured})
	pod.Start(t, node.ContainerSpec{})
	if slices.Contains(metrics(t, n, pod), "container_oom_events_total") {
		t.Error("the kills are counted all the same")
	}
}

func TestPodMetricsHaveTheNumberOfKills(t *testing.T) {
	n := testutil.Node(t)
	pod := n.RunPod(t, node.PodSpec{})
	pod.Start(t, node.ContainerSpec{})
	if names := metrics(t, n, pod); !slices.Contains(names, "container_oom_events_total") {
		t.Errorf("only these are there: %v", names)
	}
}

// metrics are the names of what the CRI knows about a pod's containers.
func metrics(t *testing.T, n testutil.TestNode, pod testutil.TestPod) []string {
	t.Helper()
	reply, err := n.CRI.ListPodSandboxMetrics(testutil.Context(t), &runtimeapi.ListPodSandboxMetricsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, each := range reply.PodMetrics {
		if each.PodSandboxId != pod.ID {
			continue
		}
		for _, container := range each.ContainerMetrics {
			for _, metric := range container.Metrics {
				names = append(names, metric.Name)
			}
		}
	}
	return names
}

// waitReason is why a container ended, once containerd says so.
func waitReason(t *testing.T, n testutil.TestNode, c testutil.TestContainer) string {
	t.Helper()
	var reason string
	err := node.Poll(testutil.Context(t), 30*time.Second, func(ctx context.Context) error {
		reply, err := n.CRI.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: c.ID})
		if err != nil {
			return err
		}
		if reason = reply.Status.Reason; reason == "" {
			return fmt.Errorf("container %s has no reason yet", c.Spec.Name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return reason
}
