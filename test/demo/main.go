// SPDX-License-Identifier: Apache-2.0

// Command demo shows the shim at work on real parts, on this machine and
// without a cluster: containerd, runsc, an S3 server, a web server, and one pod
// that starts with its data. All of it lives in namespaces of its own and is gone
// afterwards.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil/binaries"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/isolate"
)

func main() {
	os.Exit(isolate.Run(prepare, demo))
}

// prepare runs on the machine itself, before the namespaces.
func prepare() error {
	if missing := binaries.Missing(); missing != "" {
		return errors.New(missing)
	}
	return binaries.Build()
}

// demo returns the exit code: 0, 1 when something failed, 130 after Ctrl-C.
func demo() int {
	if reason := isolate.Unavailable(); reason != "" {
		fmt.Fprintln(os.Stderr, "demo:", reason)
		return 1
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	defer stop()
	err := run(ctx)
	if ctx.Err() != nil && !errors.Is(err, errNotTornDown) {
		fmt.Println("\nInterrupted.")
		return 130
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "\ndemo:", err)
		return 1
	}
	return 0
}
