// SPDX-License-Identifier: Apache-2.0

// Command sedna-storage downloads models and data sets: for the shim as
// `worker`, and for people at a terminal.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/sedna-io/containerd-shim-sedna/internal/version"
)

// Exit codes, promised to scripts.
const (
	exitFailed = 1
	exitUsage  = 2
)

// usageError marks a wrong call, for exit code 2.
type usageError struct{ error }

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	defer stop()
	err := newRoot().ExecuteContext(ctx)
	var usage usageError
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errTold):
		return exitFailed
	case errors.As(err, &usage):
		fmt.Fprintln(os.Stderr, "sedna-storage:", err)
		return exitUsage
	}
	fmt.Fprintln(os.Stderr, "sedna-storage:", err)
	return exitFailed
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "sedna-storage",
		Short:         "Download models and data sets as the Sedna shim does",
		Version:       version.Version,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{fmt.Errorf("unknown command %q; see sedna-storage --help", args[0])}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w; see %s --help", err, cmd.CommandPath())}
	})
	root.AddCommand(newWorker(), newFetch(), newInit(), newPlan(), newPS())
	return root
}
