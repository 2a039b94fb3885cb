// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/sedna-io/containerd-shim-sedna/internal/observe"
	"github.com/sedna-io/containerd-shim-sedna/storage/worker"
)

// psBar is the width of a progress bar.
const psBar = 20

func (o *psOptions) writeDownloads(out io.Writer, all []observe.Running) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(out, "no downloads are running; `sedna-storage ps --results` shows how the last ones ended")
		return err
	}
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "POD\tMOUNTS\tPROGRESS\tRATE\tLEFT\tSINCE\tITEM")
	for _, r := range all {
		p := r.Progress
		item := p.Item
		switch {
		case p.Waiting != "":
			item += " (waiting for " + p.Waiting + ")"
		case r.Limit != nil:
			item += " (" + r.Limit.String() + ")"
		}
		if p.Trouble != "" {
			item += " (" + p.Trouble + ")"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s/s\t%s\t%s\t%s\n", podName(r.Pod), printable(strings.Join(r.Mounts, ",")),
			gauge(p), size(int64(p.Rate)), left(p), o.now.Sub(r.Since).Round(time.Second), printable(item))
	}
	return t.Flush()
}

// gauge draws how much is there, as far as the whole is known.
func gauge(p worker.Progress) string {
	if p.Total <= 0 {
		return fmt.Sprintf("[%s]   ? %%  %s", strings.Repeat("?", psBar), size(p.Bytes))
	}
	part := min(max(float64(p.Bytes)/float64(p.Total), 0), 1)
	full := int(part * psBar)
	return fmt.Sprintf("[%s%s] %3d %%  %s of %s", strings.Repeat("#", full), strings.Repeat("-", psBar-full),
		int(part*100), size(p.Bytes), size(p.Total))
}

// left is how long the rest takes at the present rate.
func left(p worker.Progress) string {
	rest := p.Total - p.Bytes
	if rest <= 0 || p.Rate < 1 {
		return "-"
	}
	const long = 99 * time.Hour
	d := float64(rest) / p.Rate * float64(time.Second)
	if d > float64(long) {
		return ">" + long.String()
	}
	return time.Duration(d).Round(time.Second).String()
}

func writeResults(out io.Writer, all []observe.Result) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(out, "no download has ended on this node")
		return err
	}
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ENDED\tPOD\tRESULT\tTOOK\tBYTES\tFETCHED\tFILES\tWHAT")
	for _, r := range all {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\n", r.Time.Local().Format(time.DateTime), podName(r.Pod), printable(r.Result),
			took(r), size(r.Bytes), size(r.Fetched), r.Files, printable(what(r)))
	}
	return t.Flush()
}

func took(r observe.Result) time.Duration {
	return time.Duration(r.Seconds * float64(time.Second)).Round(10 * time.Millisecond)
}

// what names the cause of a failure, or what came.
func what(r observe.Result) string {
	if r.Failure != nil {
		return r.Failure.Kind + ": " + r.Failure.Message
	}
	var urls []string
	for _, item := range r.Items {
		text := item.URL
		if item.Cache == "hit" || item.Cache == "found" {
			text += map[string]string{"hit": " (from the cache)", "found": " (was there)"}[item.Cache]
		}
		urls = append(urls, text)
	}
	return strings.Join(urls, ", ")
}

func podName(p worker.Pod) string { return printable(p.Namespace + "/" + p.Name) }
