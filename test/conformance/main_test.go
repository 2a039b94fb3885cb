// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"flag"
	"os"
	"path/filepath"
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

// recommended is the handler of ours, as operators are told to set it up.
const recommended = "recommended"

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
var handlers = map[string]string{"sedna": recommended, "runsc": node.Runsc}

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
	began := time.Now()
	outcomes, err := critest(ctx, *focus, output(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("critest with %s took %v: %s", *shim, time.Since(began).Round(time.Second), count(outcomes))
	t.Logf("containerd could not get metrics of a task %d times", strings.Count(n.Log(0, 1<<20), "failed to get metrics"))
	checkLeftovers(ctx, t, n)
	judge(t, outcomes)
}

// startNode starts a node whose pods run with a handler, and ends it.
func startNode(t *testing.T, handler string) *node.Node {
	t.Helper()
	root, err := binaries.Root()
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
		Default: handler, Mirror: served.address, NRI: true, HostPorts: "hostport",
		Handlers: []node.Handler{{Name: recommended, ConfigPath: filepath.Join(root, "deploy", "config.toml")}},
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
