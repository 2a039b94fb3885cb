// SPDX-License-Identifier: Apache-2.0

// Package upgrade replaces a node's containerd by later versions while pods run.
package upgrade

import (
	"fmt"
	"os"
	"testing"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/binaries"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/node"
)

func TestMain(m *testing.M) {
	// The node begins with the oldest.
	if err := binaries.UseContainerd("1.7"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	testutil.Main(m, node.Options{})
}

// A shim that one version of containerd has started is asked by the next one,
// which also starts further containers in it (containerd/containerd#10984,
// #11708): shims outlive their daemon.
func TestPodsOutliveAnUpgradeOfContainerd(t *testing.T) {
	later := []string{"2.1", ""}
	for _, version := range later {
		if missing := binaries.MissingFor(version); missing != "" {
			t.Skip(missing)
		}
	}
	n := testutil.Node(t)
	server := n.Web(t)
	volume := node.Volume{Name: "sedna-storage-initializer"}
	file := "/downloads/" + server.Host() + "/model"
	run := func(name string) testutil.TestPod {
		return n.RunPod(t, node.PodSpec{
			Name: name, Volumes: []node.Volume{volume},
			Annotations: map[string]string{"storage.sedna.io/model.url": server.File("/model", []byte("weights"))},
		})
	}
	pods := []testutil.TestPod{run("made-by-1-7")}
	containers := []testutil.TestContainer{pods[0].Start(t, node.ContainerSpec{})}
	for _, version := range later {
		if err := n.Upgrade(testutil.Context(t), version); err != nil {
			t.Fatal(err)
		}
		for i, container := range containers {
			if got := container.Exec(t, "cat", file); got != "weights" {
				t.Errorf("%s: the running container reads %q", pods[i].Spec.Name, got)
			}
		}
		for _, pod := range pods {
			if got := pod.Start(t, node.ContainerSpec{}).Exec(t, "cat", file); got != "weights" {
				t.Errorf("%s: a new container reads %q", pod.Spec.Name, got)
			}
		}
		shims, err := node.Find(binaries.Shim)
		if err != nil {
			t.Fatal(err)
		}
		if len(shims) != len(pods) {
			t.Errorf("%d pods have %d shims: %v", len(pods), len(shims), shims)
		}
		pod := run("made-by-later-" + version)
		pods, containers = append(pods, pod), append(containers, pod.Start(t, node.ContainerSpec{}))
	}
}
