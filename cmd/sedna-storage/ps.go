// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/spf13/cobra"

	"github.com/sedna-io/containerd-shim-sedna/internal/observe"
)

const psExamples = `  # the downloads that run on this node
  sedna-storage ps

  # how the last ones ended, and why
  sedna-storage ps --results
  sedna-storage ps --results --last 100 -o json

  # the pods whose downloads failed, with jq
  sedna-storage ps --results -o json | jq -r '.[] | select(.result == "failure") | .pod.name'`

// psOptions are the flags of `sedna-storage ps`.
type psOptions struct {
	results bool
	last    int
	output  string

	node observe.Node
	now  time.Time
}

func newPs() *cobra.Command {
	o := psOptions{node: observe.DefaultNode()}
	cmd := &cobra.Command{
		Use:   "ps",
		Short: "List the downloads that run on this node, or how the last ones ended",
		Long: `List the downloads that run on this node for pods, or, with --results, how the
last ones ended. It reads what the shims write, and asks nobody: it works
without Kubernetes, containerd and network, but needs to be root.

It ends with 0 also when there is nothing to list, 1 when something can't be
read, 2 for a wrong call.`,
		Example: psExamples,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{fmt.Errorf("ps takes no arguments, got %q; see sedna-storage ps --help", args[0])}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.now = time.Now()
			return o.run(cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&o.results, "results", false, "how the last downloads ended, newest last")
	flags.IntVar(&o.last, "last", 20, "how many results at most")
	flags.StringVarP(&o.output, "output", "o", "table", "table or json")
	return cmd
}

func (o *psOptions) run(out io.Writer) error {
	switch {
	case o.output != "table" && o.output != "json":
		return usageError{fmt.Errorf("-o %q is neither table nor json", o.output)}
	case o.last < 1:
		return usageError{errors.New("--last is at least 1")}
	}
	if o.results {
		all, err := o.node.Results(o.last)
		return show(o, out, all, err, writeResults)
	}
	all, err := o.node.Downloads()
	return show(o, out, all, err, o.writeDownloads)
}

// show prints what could be read before it tells what couldn't.
func show[T any](o *psOptions, out io.Writer, all []T, err error, table func(io.Writer, []T) error) error {
	if err != nil && len(all) == 0 {
		return unreadable(err)
	}
	var failed error
	if o.output == "json" {
		if all == nil {
			all = []T{} // a list, also for jq
		}
		encoder := json.NewEncoder(out)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		failed = encoder.Encode(all)
	} else {
		failed = table(out, all)
	}
	if failed != nil {
		return failed
	}
	return unreadable(err)
}

func unreadable(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w; only root may see the downloads of all pods", err)
	}
	return err
}
