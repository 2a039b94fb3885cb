// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil/node"
)

// patience is how long a step may take on a machine that has other things to do.
// Nothing waits that long unless it fails.
const patience = 2 * time.Minute

// scene is the namespace of one test.
type scene struct {
	*testing.T
	world

	ctx context.Context
	// name of the namespace.
	name string
}

// stage makes a namespace for a test. When the test ends, so do all that is in
// it, and nothing of its pods may be left on the node.
func stage(t *testing.T) scene {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	t.Cleanup(cancel)
	s := scene{t, shared, ctx, namespaceOf(t.Name())}
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.name}}
	if _, err := s.Client.CoreV1().Namespaces().Create(ctx, object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.strike)
	s.eventually("the namespace has a service account", func() error { return s.ServiceAccount(ctx, s.name) })
	return s
}

var noWord = regexp.MustCompile(`[^a-z0-9]+`)

// namespaceOf makes a DNS label of a test's name.
func namespaceOf(test string) string {
	label := noWord.ReplaceAllString(strings.ToLower(test), "-")
	return strings.Trim(label[:min(len(label), 60)], "-")
}

// strike removes the namespace, and looks at what is left.
func (s scene) strike() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if s.Failed() {
		s.explain(ctx)
	}
	pods, err := s.Client.CoreV1().Pods(s.name).List(ctx, metav1.ListOptions{})
	if err != nil {
		s.Error(err)
		return
	}
	if err := s.Client.CoreV1().Namespaces().Delete(ctx, s.name, metav1.DeleteOptions{}); err != nil {
		s.Error(err)
	}
	err = node.Poll(ctx, patience, func(ctx context.Context) error {
		_, err := s.Client.CoreV1().Namespaces().Get(ctx, s.name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(err, fmt.Errorf("namespace %s is still there", s.name))
	})
	if err != nil {
		s.Error(err)
	}
	for _, pod := range pods.Items {
		s.gone(pod)
	}
}

// explain says what is known of a test that has failed: its pods, and what
// containerd and the shims have logged about them.
func (s scene) explain(ctx context.Context) {
	text, err := s.Kubectl(ctx, "--namespace="+s.name, "describe", "pods")
	s.Logf("kubectl describe pods: %v\n%s", err, text)
	for line := range strings.Lines(s.Node.Log(0, 10000)) {
		if strings.Contains(line, s.name) {
			s.Log(strings.TrimSpace(line))
		}
	}
}

// eventually fails the test when check doesn't succeed in time.
func (s scene) eventually(what string, check func() error) {
	s.Helper()
	if err := node.Poll(s.ctx, patience, func(context.Context) error { return check() }); err != nil {
		s.Fatalf("waited until %s: %v", what, err)
	}
}

// kubectl returns what it prints, for the test's namespace.
func (s scene) kubectl(args ...string) string {
	s.Helper()
	out, err := s.Kubectl(s.ctx, append([]string{"--namespace=" + s.name}, args...)...)
	if err != nil {
		s.Fatal(err)
	}
	return out
}

// has fails for each of the parts that a text lacks.
func (s scene) has(text string, parts ...string) {
	s.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			s.Errorf("%q is not in: %s", part, text)
		}
	}
}
