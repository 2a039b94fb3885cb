// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/sedna-io/containerd-shim-sedna/storage/worker"
)

// psOptions are the flags of `sedna-storage ps`.
type psOptions struct {
	output string
	dir    string // where shims say what they download
	now    func() time.Time
}

func newPS() *cobra.Command {
	o := psOptions{dir: worker.RunningDir, now: time.Now}
	cmd := &cobra.Command{
		Use:   "ps",
		Short: "Show the downloads that run on this node",
		Long: `Show the downloads that run on this node: for which pod and mounts, how far they
are, how fast, how long still, since when, and what each is at or waits for.

It needs to be root, as shims are.`,
		Example: `  sedna-storage ps
  watch sedna-storage ps
  sedna-storage ps -o json | jq -r '.[] | select(.progress.rate < 1e6) | .pod.name'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{fmt.Errorf("unexpected %q; ps takes no names", args[0])}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.OutOrStdout()) },
	}
	cmd.Flags().StringVarP(&o.output, "output", "o", "table", "table or json")
	return cmd
}

func (o *psOptions) run(out io.Writer) error {
	if o.output != "table" && o.output != "json" {
		return usageError{fmt.Errorf("-o %q is none of table and json", o.output)}
	}
	all, err := worker.ReadRunning(o.dir)
	if err != nil {
		return fmt.Errorf("look for running downloads: %w", err)
	}
	slices.SortFunc(all, func(a, b worker.Running) int { return a.Since.Compare(b.Since) })
	if o.output == "json" {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(append([]worker.Running{}, all...)) // never null
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "POD\tMOUNTS\tPROGRESS\tBYTES\tRATE\tLEFT\tSINCE\tAT")
	for _, r := range all {
		fmt.Fprintln(table, strings.Join(o.row(r), "\t"))
	}
	return table.Flush()
}

func (o *psOptions) row(r worker.Running) []string {
	p := r.Progress
	bytes := humanize.IBytes(uint64(max(p.Bytes, 0)))
	if p.Total > 0 {
		bytes += " of " + humanize.IBytes(uint64(p.Total))
	}
	at := p.Item
	if p.Waiting != "" {
		at = "waits for " + p.Waiting
	}
	return []string{
		r.Pod.Namespace + "/" + r.Pod.Name, strings.Join(r.Mounts, ","), bar(p), bytes,
		humanize.IBytes(uint64(max(p.Rate, 0))) + "/s", left(p), o.now().Sub(r.Since).Round(time.Second).String(), at,
	}
}

// bar draws how much there is of what is known to come.
func bar(p worker.Progress) string {
	const width = 20
	if p.Total <= 0 {
		return "?"
	}
	share := min(max(float64(p.Bytes)/float64(p.Total), 0), 1)
	full := int(share * width)
	return fmt.Sprintf("[%s%s] %3d %%", strings.Repeat("#", full), strings.Repeat("-", width-full), int(share*100))
}

// left is how long it will still take at the present rate.
func left(p worker.Progress) string {
	if p.Total <= 0 || p.Rate < 1 {
		return "?"
	}
	seconds := float64(max(p.Total-p.Bytes, 0)) / p.Rate
	return (time.Duration(min(seconds, 1e7)) * time.Second).String()
}
