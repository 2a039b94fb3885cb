// SPDX-License-Identifier: Apache-2.0

// Package e2e holds the tests on a real Kubernetes: what a user of a cluster does
// with pods that download, and what they see of it.
package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/sedna-io/containerd-shim-sedna/test/e2e/cluster"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/binaries"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/isolate"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/node"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/s3"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/web"
)

// world is what all tests share. Each has a namespace of its own in it, so most
// of them run side by side; those that stop a part of it run before, one by one.
type world struct {
	*cluster.Cluster
	web *web.Server
	s3  *s3.Server
}

var shared world

func TestMain(m *testing.M) {
	if reason := cluster.Missing(); reason != "" && !isolate.Inside() {
		fmt.Fprintln(os.Stderr, reason)
		os.Exit(1)
	}
	os.Exit(isolate.Run(binaries.Build, func() int { return run(m) }))
}

func run(m *testing.M) int {
	if reason := isolate.Unavailable(); reason != "" {
		fmt.Fprintln(os.Stderr, reason)
		return 1
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	began := time.Now()
	err := shared.start(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Printf("the cluster is ready after %s\n", time.Since(began).Round(time.Second))
	code := m.Run()
	if err := shared.stop(code != 0); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

func (w *world) start(ctx context.Context) (err error) {
	if w.Cluster, err = cluster.Start(ctx); err != nil {
		return err
	}
	if w.web, err = web.Start(node.Address); err != nil {
		return errors.Join(err, w.Close())
	}
	if w.s3, err = node.StartS3(ctx, w.Node); err != nil {
		return errors.Join(err, w.Close())
	}
	return nil
}

// stop says what the tests have left, and ends everything.
func (w *world) stop(failed bool) error {
	left := w.Leftovers(context.Background())
	if failed || left != nil {
		fmt.Fprintf(os.Stderr, "%s\n--- end of containerd's and the shims' log:\n%s\n", w.Logs(15), w.Node.Log(0, 60))
	}
	_ = w.web.Close()
	return errors.Join(left, w.s3.Close(), w.Close())
}
