// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sedna-io/containerd-shim-sedna/test/e2e/cluster"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/image"
)

// crash ends a pod's container, and waits until it runs again.
func (s scene) crash(name string) {
	s.Helper()
	pod, err := s.get(name)
	if err != nil {
		s.Fatal(err)
	}
	before := restarts(pod, "main")
	s.exec(name, "main", "kill", "1")
	s.eventually("the container has started again", func() error {
		pod, err := s.get(name)
		if err == nil && (restarts(pod, "main") == before || !isReady(pod)) {
			err = fmt.Errorf("it has started again %d times", restarts(pod, "main"))
		}
		return err
	})
}

// answers waits until `kubectl exec` works again.
func (s scene) answers(pod string) {
	s.Helper()
	s.eventually("kubectl exec works again", func() error {
		_, err := s.Kubectl(s.ctx, "--namespace="+s.name, "exec", pod, "--", image.Binary, "env")
		return err
	})
}

// Tests that stop a part of the cluster don't run beside others.

func TestPodsOutliveARestartOfContainerd(t *testing.T) {
	s := stage(t)
	url, files := s.model("model.bin", 1<<20)
	before := s.run("app", template(asksModel(url)))
	if err := s.Node.Restart(s.ctx, false); err != nil {
		t.Fatal(err)
	}
	s.answers("app")
	s.sees("app", "main", url, files)
	s.crash("app")
	s.sees("app", "main", url, files)
	if after, err := s.get("app"); err != nil || after.Status.PodIP != before.Status.PodIP {
		t.Errorf("the pod should have kept its sandbox: address %s, now %s (%v)", before.Status.PodIP, after.Status.PodIP, err)
	}
	s.run("another", template(asksModel(url)))
	s.sees("another", "main", url, files)
}

func TestPodsOutliveARestartOfKubelet(t *testing.T) {
	s := stage(t)
	url, files := s.model("model.bin", 1<<20)
	before := s.run("app", template(asksModel(url)))
	if err := s.RestartKubelet(s.ctx, cluster.RequestTimeout); err != nil {
		t.Fatal(err)
	}
	s.answers("app")
	after := s.ready("app")
	if restarts(after, "main") != 0 || after.Status.PodIP != before.Status.PodIP {
		t.Errorf("the pod should have gone on as it was: %+v", after.Status)
	}
	s.crash("app")
	s.sees("app", "main", url, files)
	if n := s.fetches(url); n != 1 {
		t.Errorf("the model was fetched %d times", n)
	}
}

// shortTimeout is a runtimeRequestTimeout; a sandbox gets twice as much.
const shortTimeout = 8 * time.Second

// shortTimeouts gives kubelet little patience for the time of a test.
func (s scene) shortTimeouts() {
	s.Helper()
	if err := s.RestartKubelet(s.ctx, shortTimeout); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		if err := s.RestartKubelet(s.ctx, cluster.RequestTimeout); err != nil {
			s.Error(err)
		}
	})
}

func TestModelThatTakesSeveralAttemptsToFetch(t *testing.T) {
	s := stage(t)
	s.shortTimeouts()
	const size, step = 12 << 20, 4 << 20
	url, files, gate := s.heldBack(size, step)
	s.create("app", template(asksModel(url)))
	var shares []int
	for attempt := 1; attempt <= 2; attempt++ {
		s.eventually("an event tells how far the download got", func() (err error) {
			if shares, err = s.unfinished("app"); err == nil && len(shares) < attempt {
				err = fmt.Errorf("events of unfinished downloads: %v", shares)
			}
			return err
		})
		gate.Let(step)
	}
	gate.Open()
	s.ready("app")
	s.sees("app", "main", url, files)
	t.Logf("percent of the model that events told: %v; sent %d of %d bytes", shares, gate.Sent(), size)
	if gate.Sent() > size*105/100 {
		t.Errorf("%d bytes were sent for a model of %d", gate.Sent(), size)
	}
}

var progress = regexp.MustCompile(`mount "model" is not finished: .* of 12 MiB \((\d+) %\).* next attempt goes on`)

// unfinished are the different percentages that the pod's events tell, ascending.
func (s scene) unfinished(pod string) ([]int, error) {
	events, err := s.Client.CoreV1().Events(s.name).List(s.ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + pod})
	if err != nil {
		return nil, err
	}
	var shares []int
	for _, event := range events.Items {
		if found := progress.FindStringSubmatch(event.Message); found != nil {
			share, _ := strconv.Atoi(found[1]) // digits
			shares = append(shares, share)
		}
	}
	slices.Sort(shares)
	return slices.Compact(shares), nil
}
