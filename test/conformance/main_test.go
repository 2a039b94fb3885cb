// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil/binaries"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/isolate"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/node"
)

var (
	shim   = flag.String("shim", "", "run critest with this shim, sedna or runsc; otherwise only the table is checked")
	focus  = flag.String("focus", "", "only the specs that match, as critest's -ginkgo.focus")
	update = flag.Bool("update", false, "write what was found into results.tsv and docs/conformance.md")
	logTo  = flag.String("critest-log", "", "append critest's output to this file")
)

// The handlers: ours as operators are told to set it up, and gVisor's own shim.
const (
	recommended = "recommended"
	peer        = "peer"
)

// withHostPorts is the network of their pods.
var withHostPorts = node.Network{
	Bridge: "sedna3", Address: "10.92.0.1",
	Chained: `{"type": "hostport", "capabilities": {"portMappings": true}}`,
}

func TestMain(m *testing.M) {
	flag.Parse()
	if *shim == "" {
		os.Exit(m.Run())
	}
	prepare := func() error {
		return binaries.BuildWith(map[string]string{
			"standin": "./test/conformance/standin", "hostport": "./test/conformance/hostport",
		})
	}
	os.Exit(isolate.Run(prepare, m.Run))
}

// handlers are containerd's handlers by the shim's name.
var handlers = map[string]string{"sedna": recommended, "runsc": peer}

func TestCritestEndsAsTheTableSays(t *testing.T) {
	if *shim == "" {
		t.Skip("takes minutes: make conformance runs it")
	}
	if reason := isolate.Unavailable(); reason != "" {
		t.Fatal(reason)
	}
	handler, ok := handlers[*shim]
	if !ok {
		t.Fatalf("-shim=%s is neither sedna nor runsc", *shim)
	}
	n := startNode(t, handler)
	ctx, cancel := context.WithTimeout(context.Background(), 25*time.Minute)
	defer cancel()
	outcomes := runCritest(ctx, t)
	t.Logf("containerd could not get metrics of a task %d times", strings.Count(n.Log(0, 1<<20), "failed to get metrics"))
	checkLeftovers(ctx, t, n)
	judge(t, outcomes)
}

// runCritest runs what was asked for. A spec that ends worse than it should gets
// a second chance, and that is told: specs wait for seconds only, which is too
// short on a machine that has a lot else to do.
func runCritest(ctx context.Context, t *testing.T) []outcome {
	t.Helper()
	var asked []string
	if *focus != "" {
		asked = []string{*focus}
	}
	log := output(t)
	began := time.Now()
	outcomes, err := critest(ctx, asked, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("critest with %s took %v: %s", *shim, time.Since(began).Round(time.Second), count(outcomes))
	names := disappointing(tableOrNone(t), outcomes)
	if len(names) == 0 {
		return outcomes
	}
	again := make([]string, 0, len(names))
	for _, o := range outcomes {
		if slices.Contains(names, o.spec) {
			again = append(again, exactly(o.spec))
			t.Logf("%s: %s after %v, once more: %s", o.spec, o.state, o.took, o.message)
		}
	}
	second, err := critest(ctx, again, log)
	if err != nil {
		t.Fatal(err)
	}
	outcomes = slices.DeleteFunc(outcomes, func(o outcome) bool { return slices.Contains(names, o.spec) })
	return append(outcomes, second...)
}

// startNode starts a node whose pods run with a handler, and ends it.
func startNode(t *testing.T, handler string) *node.Node {
	t.Helper()
	root, err := binaries.Root()
	if err != nil {
		t.Fatal(err)
	}
	ours, _, err := binaries.Dirs()
	if err != nil {
		t.Fatal(err)
	}
	served, err := serveImages()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(served.Close)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	n, err := node.Start(ctx, node.Options{
		Default: handler, Mirror: served.address, NRI: true, Plugins: []string{"hostport"},
		Handlers: []node.Handler{
			{Name: recommended, ConfigPath: filepath.Join(root, "deploy", "config.toml"), Network: &withHostPorts},
			{Name: peer, Type: "io.containerd.runsc.v1", Path: filepath.Join(ours, binaries.GVisorShim), Raw: true, Network: &withHostPorts},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("end of containerd's and the shims' log:\n%s", n.Log(0, 40))
		}
		if err := n.Close(); err != nil {
			t.Errorf("close node: %v", err)
		}
	})
	return n
}

// checkLeftovers holds our shim to leaving nothing of a hundred pods. Specs that
// fail leave theirs running.
func checkLeftovers(ctx context.Context, t *testing.T, n *node.Node) {
	t.Helper()
	err := n.Clear(ctx, critestDir)
	if err == nil {
		err = n.CheckLeftovers(ctx)
	}
	switch {
	case err != nil && *shim == "sedna":
		t.Error(err)
	case err != nil:
		t.Log(err)
	}
}

// output is where critest's own output goes.
func output(t *testing.T) *os.File {
	t.Helper()
	name := *logTo
	if name == "" {
		return nil
	}
	file, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	return file
}
