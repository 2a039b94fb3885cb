// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/node"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/policy"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/web"
)

// policedServer is a server that pods of the handler policed reach, if their
// policies let them.
func policedServer(t *testing.T) *web.Server {
	t.Helper()
	server, err := web.Start(withPolicies.Address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	return server
}

// denied is a pod whose traffic a policy denies, from before its download on.
func denied(t *testing.T, n testutil.TestNode, rule, url string) testutil.TestPod {
	t.Helper()
	annotations := asks(map[string]string{"model.url": url})
	annotations[policy.Annotation] = rule
	return n.NewPod(t, node.PodSpec{
		Handler: policed, DNS: []string{withPolicies.Address},
		Volumes: []node.Volume{downloadVolume()}, Annotations: annotations,
	})
}

// The pods wait side by side: what a policy denies at first may be allowed a
// moment later.
func TestAPolicyOfThePodStopsItsDownloadAndTheErrorSaysSo(t *testing.T) {
	n := testutil.Node(t)
	server := policedServer(t)
	url := server.File("/model", []byte("x"))
	cases := []struct {
		name, rule, url string
		deadline        time.Duration // of whoever asks for the pod
		says            []string
	}{
		{name: "refused", rule: policy.Refuse, deadline: 2 * time.Minute, says: []string{"Unavailable", url, "refused"}},
		{name: "prohibited", rule: policy.Prohibit, deadline: 2 * time.Minute, says: []string{"Unavailable", url, "no route", "policies"}},
		// A try alone takes longer than all tries of the others.
		{name: "dropped", rule: policy.Drop, deadline: 25 * time.Second, says: []string{
			"DeadlineExceeded", `mount "model" is not finished`, "0 B", "did not answer in time", "network policy", "next attempt",
		}},
		{name: "names dropped", rule: "drop udp", url: "http://models.example.com/model", deadline: 2 * time.Minute, says: []string{
			"Unavailable", "models.example.com can't be resolved", "DNS server doesn't answer", "policy",
		}},
	}
	pods, messages := make([]testutil.TestPod, len(cases)), make([]string, len(cases))
	for i, c := range cases {
		if c.url == "" {
			c.url = url
		}
		pods[i] = denied(t, n, c.rule, c.url)
	}
	var wait sync.WaitGroup
	for i, c := range cases {
		wait.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), c.deadline)
			defer cancel()
			if err := pods[i].Pod.Run(ctx); err != nil {
				messages[i] = err.Error()
			}
		})
	}
	wait.Wait()
	for i, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Log(messages[i])
			contains(t, messages[i], c.says...)
			noFinalFiles(t, pods[i])
		})
	}
	if asked := server.All(); len(asked) > 0 {
		t.Errorf("the server was asked: %v", asked)
	}
}

func TestAPolicyThatAllowsThePodAMomentLaterDelaysItOnly(t *testing.T) {
	n := testutil.Node(t)
	server := policedServer(t)
	url := server.File("/model", []byte("x"))
	for _, rule := range []string{policy.Refuse, policy.Prohibit, policy.Drop} {
		t.Run(rule, func(t *testing.T) {
			pod := denied(t, n, rule, url)
			result := make(chan error, 1)
			go func() { result <- pod.Pod.Run(testutil.Context(t)) }()
			liftPolicy(t)
			if err := <-result; err != nil {
				t.Fatal(err)
			}
			container := pod.Start(t, node.ContainerSpec{})
			holds(t, container, downloads+"/"+server.Host()+"/model", "x")
		})
	}
}

// liftPolicy waits until the node's only pod has met its policy, and removes it.
func liftPolicy(t *testing.T) {
	t.Helper()
	err := node.Poll(testutil.Context(t), time.Minute, func(context.Context) error {
		found, err := filepath.Glob("/run/netns/cni-*")
		if err != nil || len(found) != 1 {
			return errors.New("there isn't one network namespace")
		}
		if hits, err := policy.Hits(found[0]); err != nil || hits == 0 {
			return errors.Join(err, errors.New("the policy has denied nothing"))
		}
		return policy.Lift(found[0])
	})
	if err != nil {
		t.Error(err)
	}
}
