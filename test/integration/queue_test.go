// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/node"
)

// A node downloads for max_workers pods at once; the next one waits, and says so.
func TestDownloadsBeyondTheNodesNumberWaitAndSaySo(t *testing.T) {
	h := newHalfway(t, oneByOne)
	first := make(chan error, 1)
	go func() { first <- h.Pod.Run(testutil.Context(t)) }()
	select {
	case <-h.gate.Reached:
	case err := <-first:
		t.Fatalf("the first pod was done before its download: %v", err)
	}

	since := h.node.LogSize()
	server := h.node.Web(t)
	other := h.node.NewPod(t, node.PodSpec{
		Handler: oneByOne, Volumes: []node.Volume{downloadVolume()},
		Annotations: asks(map[string]string{"model.url": server.File("/other", []byte("other"))}),
	})
	second := make(chan error, 1)
	go func() { second <- other.Pod.Run(testutil.Context(t)) }()
	err := node.Poll(testutil.Context(t), 30*time.Second, func(context.Context) error {
		if !strings.Contains(h.node.Log(since, 1000), "waiting for one of the node's 1 download slots") {
			return errors.New("the second pod doesn't say that it waits")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	select {
	case err := <-second:
		t.Fatalf("the second pod didn't wait: %v", err)
	default:
	}
	h.gate.Open()
	if err := errors.Join(<-first, <-second); err != nil {
		t.Fatal(err)
	}
	container := other.Start(t, node.ContainerSpec{})
	if got := container.Exec(t, "cat", downloads+"/"+server.Host()+"/other"); got != "other" {
		t.Errorf("the second pod reads %q", got)
	}
}
