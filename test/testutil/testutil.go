// SPDX-License-Identifier: Apache-2.0

// Package testutil gives tests a node to run pods on.
//
//	func TestMain(m *testing.M) { testutil.Main(m, node.Options{}) }
//
//	func TestPodSaysHello(t *testing.T) {
//		n := testutil.Node(t)
//		pod := n.RunPod(t, node.PodSpec{})
//		container := pod.Start(t, node.ContainerSpec{})
//		container.Exec(t, "env")
//	}
//
// All tests of a package share one node, one after the other: after each of
// them nothing may be left on it, and that can be seen only if no other test
// runs. Packages run side by side, each with its own node.
package testutil

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil/binaries"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/isolate"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/node"
)

// shared is the node of this process; nil while no test needed it.
var shared struct {
	options node.Options
	node    *node.Node
	err     error
}

// Main runs the tests of a package in namespaces of their own.
func Main(m *testing.M, opts node.Options) {
	shared.options = opts
	prepare := func() error {
		if binaries.Missing() != "" {
			return nil // the tests skip, and say so
		}
		return binaries.Build()
	}
	os.Exit(isolate.Run(prepare, func() int { return run(m) }))
}

func run(m *testing.M) int {
	code := m.Run()
	if shared.node == nil {
		return code
	}
	if sharedS3.server != nil {
		_ = sharedS3.server.Close()
	}
	if err := shared.node.Close(); err != nil {
		fmt.Fprintln(os.Stderr, "close node:", err)
		return 1
	}
	return code
}

// TestNode is the shared node in the hands of one test.
type TestNode struct{ *node.Node }

// Node returns the node, started if need be. When the test ends, whatever it
// left there fails it.
func Node(t testing.TB) TestNode {
	t.Helper()
	if reason := isolate.Unavailable(); reason != "" {
		t.Skip(reason)
	}
	if reason := binaries.Missing(); reason != "" {
		t.Skip(reason)
	}
	if !isolate.Inside() {
		t.Fatal("the package's TestMain doesn't call testutil.Main")
	}
	if shared.node == nil && shared.err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), node.Patience(time.Minute))
		defer cancel()
		shared.node, shared.err = node.Start(ctx, shared.options)
	}
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	since := shared.node.LogSize()
	t.Cleanup(func() { checkAfter(t, shared.node, since) })
	return TestNode{shared.node}
}

// Configure writes the config.toml of a handler, see node.Node.Configure.
func (n TestNode) Configure(t testing.TB, handler, config string) {
	t.Helper()
	if err := n.Node.Configure(handler, config); err != nil {
		t.Fatal(err)
	}
}

// ConfigureFirst writes the config.toml of a handler with keys of the top level,
// see node.Node.ConfigureFirst.
func (n TestNode) ConfigureFirst(t testing.TB, handler, config string) {
	t.Helper()
	if err := n.Node.ConfigureFirst(handler, config); err != nil {
		t.Fatal(err)
	}
}

// checkAfter runs after all other cleanups of the test.
func checkAfter(t testing.TB, n *node.Node, since int64) {
	if err := n.CheckLeftovers(context.Background()); err != nil {
		t.Error(err)
	}
	if t.Failed() {
		t.Logf("end of containerd's and the shims' log:\n%s", n.Log(since, 60))
	}
}

// Context bounds one step of a test, shorter than go test's own limit so that
// the reason gets printed.
func Context(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), node.Patience(2*time.Minute))
	t.Cleanup(cancel)
	return ctx
}
