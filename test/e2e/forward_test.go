// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// greeting is what the pods of these tests answer.
const greeting = "hello from gVisor"

func serves(spec *corev1.PodSpec) {
	spec.Containers = []corev1.Container{container("main", "serve", ":8080", greeting)}
}

func TestServiceOfAPodIsReachedByItsAddress(t *testing.T) {
	t.Parallel()
	s := stage(t)
	url, _ := s.model("model.bin", 1<<20)
	pod := s.run("app", template(asksModel(url), serves))
	s.eventually("the pod answers", func() error { return greets(s.ctx, "http://"+pod.Status.PodIP+":8080/") })
}

// containerd forwards ports to the loopback of the pod's network namespace, where
// gVisor's own stack doesn't listen: `kubectl port-forward` fails under gVisor's
// shim. Under ours it must be no worse.
func TestPortForwardWorksIfItDoesUnderGVisorsShim(t *testing.T) {
	t.Parallel()
	s := stage(t)
	url, _ := s.model("model.bin", 1<<10)
	s.run("ours", template(asksModel(url), serves))
	s.run("theirs", template(nil, serves, gvisor))
	ours, theirs := s.forward("ours"), s.forward("theirs")
	t.Logf("ours: %v; gVisor's: %v", ours, theirs)
	if ours != nil && theirs == nil {
		t.Errorf("port-forward fails: %v", ours)
	}
}

var forwarding = regexp.MustCompile(`^Forwarding from (127\.0\.0\.1:\d+)`)

// forward asks a pod's port for a page through `kubectl port-forward`.
func (s scene) forward(pod string) error {
	ctx, cancel := context.WithTimeout(s.ctx, time.Minute)
	defer cancel()
	cmd := s.Command(ctx, "--namespace="+s.name, "port-forward", "--address=127.0.0.1", "pod/"+pod, ":8080")
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() {
		cancel()
		_ = cmd.Wait()
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return fmt.Errorf("kubectl port-forward says nothing: %w", err)
	}
	at := forwarding.FindStringSubmatch(line)
	if at == nil {
		return fmt.Errorf("kubectl port-forward says %q", line)
	}
	return greets(ctx, "http://"+at[1]+"/")
}

// greets succeeds when a URL answers the greeting.
func greets(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	if err == nil && string(text) != greeting {
		err = fmt.Errorf("%s answers %q", url, text)
	}
	return err
}
