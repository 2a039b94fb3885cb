// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/containerd/errdefs"
	"github.com/spf13/cobra"

	"github.com/sedna-io/containerd-shim-sedna/internal/version"
	"github.com/sedna-io/containerd-shim-sedna/storage"
	"github.com/sedna-io/containerd-shim-sedna/storage/worker"
)

// How long the lines of a shim are at most, bytes.
const (
	maxRequest = 64 << 20
	maxGrant   = 1 << 10
)

// errGone ends a worker whose shim is gone.
var errGone = fmt.Errorf("the shim closed the worker's input: %w", context.Canceled)

func newWorker() *cobra.Command {
	var place worker.Place
	cmd := &cobra.Command{
		Use:    "worker",
		Short:  "Download for the shim: a request on stdin, events on stdout",
		Hidden: true, // it's no interface for people
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			out := cmd.OutOrStdout()
			if err := worker.Enter(place, []string{os.Args[0], "worker"}, warn(out)); err != nil {
				return tell(out, nil, err)
			}
			if err := worker.Settle(); err != nil {
				return tell(out, nil, err)
			}
			report, err := serve(cmd.Context(), cmd.InOrStdin(), out)
			return tell(out, report, err)
		},
	}
	cmd.Flags().StringVar(&place.NetNS, "netns", "", "network namespace to work in")
	cmd.Flags().StringVar(&place.ResolvConf, "resolv-conf", "", "file to resolve names by")
	cmd.Flags().StringVar(&place.Volume, "volume", "", "folder to be held to")
	return cmd
}

// warn writes a line for the shim's log.
func warn(out io.Writer) func(string) {
	lines := json.NewEncoder(out)
	return func(message string) {
		_ = lines.Encode(worker.Event{Log: &worker.Log{Level: "warning", Message: message}})
	}
}

// serve does the one request on in. The end of in is a cancel.
func serve(ctx context.Context, in io.Reader, out io.Writer) (*worker.Report, error) {
	lines := bufio.NewReader(in)
	req, err := readRequest(lines)
	if err != nil {
		return nil, err
	}
	req.Limits.Apply()
	root, err := os.OpenRoot(req.Dir)
	if err != nil {
		return nil, fmt.Errorf("open the pod's volume: %w", err)
	}
	defer root.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	events := eventWriter{out: json.NewEncoder(out), failed: cancel}
	meter := storage.NewMeter(func() { events.write(worker.Event{Ask: &worker.Ask{}}) })
	go func() { cancel(takeGrants(lines, meter)) }()
	var options []storage.Option
	if req.Limits.Metered {
		options = append(options, storage.Metered(meter))
	}
	return storage.Run(ctx, root, req, events.write, options...)
}

// takeGrants passes on what the shim grants, until it's gone.
func takeGrants(lines *bufio.Reader, meter *storage.Meter) error {
	for {
		line, err := worker.ReadLine(lines, maxGrant)
		if err != nil {
			return errGone
		}
		var g worker.Grant
		if err := json.Unmarshal(line, &g); err != nil || g.Bytes <= 0 {
			return fmt.Errorf("the shim wrote what is no grant: %w", errdefs.ErrInvalidArgument)
		}
		meter.Grant(g.Bytes)
	}
}

func readRequest(lines *bufio.Reader) (worker.Request, error) {
	var req worker.Request
	line, err := worker.ReadLine(lines, maxRequest)
	if errors.Is(err, worker.ErrLongLine) {
		err = fmt.Errorf("longer than %d bytes: %w", maxRequest, errdefs.ErrInvalidArgument)
	}
	if err != nil {
		return req, fmt.Errorf("read the request: %w", err)
	}
	if err := json.Unmarshal(line, &req); err != nil {
		// Its text may quote the request, and that holds secrets.
		return req, fmt.Errorf("the request can't be read: %w", errdefs.ErrInvalidArgument)
	}
	if req.Version != version.Version {
		return req, fmt.Errorf("the shim is version %q, this worker %q: install both from one release: %w",
			req.Version, version.Version, errdefs.ErrInvalidArgument)
	}
	return req, nil
}

// eventWriter writes events. Nobody to read them means nobody to work for.
type eventWriter struct {
	mu     sync.Mutex
	out    *json.Encoder // guarded by mu
	failed context.CancelCauseFunc
}

func (w *eventWriter) write(e worker.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.out.Encode(e); err != nil {
		w.failed(errGone)
	}
}

// errTold is a failure that stdout has told already.
var errTold = errors.New("failed")

// tell writes how it ended, as the last line.
func tell(out io.Writer, report *worker.Report, err error) error {
	e := worker.Event{Report: report}
	if err != nil {
		f := storage.AsFailure(err)
		e = worker.Event{Failure: &f}
	}
	if failed := json.NewEncoder(out).Encode(e); failed != nil && err == nil {
		err = failed
	}
	if err != nil {
		return errTold
	}
	return nil
}
