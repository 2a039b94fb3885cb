// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/sedna-io/containerd-shim-sedna/storage"
	"github.com/sedna-io/containerd-shim-sedna/storage/plan"
	"github.com/sedna-io/containerd-shim-sedna/storage/worker"
)

const fetchExamples = `  # a file to ./models/model.bin
  sedna-storage fetch https://host/path/model.bin ./models

  # the objects below a prefix of one's own S3 service
  export AWS_ACCESS_KEY_ID=... AWS_SECRET_ACCESS_KEY=...
  sedna-storage fetch --endpoint minio.local:9000 --s3-usehttps 0 s3://bucket/model/ ./models

  # for scripts: one JSON object a line
  sedna-storage fetch --json s3://bucket/model/ ./models`

// fetchOptions are what the flags of fetch say.
type fetchOptions struct {
	endpoint, region, addressing, useHTTPS string
	digest                                 string
	concurrency                            int
	json                                   bool
}

func newFetch() *cobra.Command {
	var o fetchOptions
	cmd := &cobra.Command{
		Use:   "fetch URL... DIR",
		Short: "Download files and S3 prefixes into a folder, as the shim does for a pod",
		Long: `Download files and S3 prefixes into a folder, as the shim does for a pod.

A file lands at DIR/NAME, the objects of an S3 prefix below DIR. What is whole
appears under its name; what is half done stays in DIR/.sedna, and the same
command goes on from there.`,
		Example: fetchExamples,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 {
				return usageError{errors.New("fetch wants one or more URLs and a folder; see sedna-storage fetch --help")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd.Context(), args[:len(args)-1], args[len(args)-1], cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.endpoint, "endpoint", "", "S3 service, HOST or HOST:PORT (default AWS)")
	f.StringVar(&o.region, "region", "", "S3 region (default: what the server says)")
	f.StringVar(&o.addressing, "s3-addressing", "auto", "bucket in the host name or in the path: auto, path, virtual")
	f.StringVar(&o.useHTTPS, "s3-usehttps", "1", `"0" for plain http`)
	f.StringVar(&o.digest, "digest", "", "sha256:HEX that the file must have")
	f.IntVar(&o.concurrency, "concurrency", 32, "connections at most")
	f.BoolVar(&o.json, "json", false, "write events as JSON, one a line")
	return cmd
}

func (o *fetchOptions) run(ctx context.Context, urls []string, dir string, out, status io.Writer) error {
	items, err := o.items(urls)
	if err != nil {
		return usageError{err}
	}
	unix.Umask(0) // the modes of files are ours to say
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	req := worker.Request{Dir: dir, Items: items, Limits: worker.Limits{Concurrency: o.concurrency}}
	show := func(e worker.Event) {
		if p := e.Progress; p != nil {
			fmt.Fprintf(status, "%d files, %s, %s/s\n", p.Files, humanize.IBytes(uint64(p.Bytes)), humanize.IBytes(uint64(p.Rate)))
		}
	}
	if o.json {
		lines := json.NewEncoder(out)
		show = func(e worker.Event) { _ = lines.Encode(e) }
	}
	report, err := storage.Run(ctx, root, req, show)
	if err != nil {
		return hintResume(err)
	}
	if o.json {
		return json.NewEncoder(out).Encode(worker.Event{Report: report})
	}
	fmt.Fprintf(out, "%d files, %s in %s\n", report.Files, humanize.IBytes(uint64(report.Bytes)), report.Duration.Round(1e6))
	return nil
}

// hintResume tells a person who pressed Ctrl-C that nothing is lost.
func hintResume(err error) error {
	if errors.Is(err, context.Canceled) {
		return errors.New("interrupted; what has arrived is kept, the same command goes on from there")
	}
	return err
}

func (o *fetchOptions) items(urls []string) ([]worker.Item, error) {
	var items []worker.Item
	for _, raw := range urls {
		u, err := plan.ParseURL(raw)
		if err != nil {
			return nil, err
		}
		d := plan.Download{URL: u, Digest: o.digest}
		switch u.Scheme {
		case "s3":
			insecure := o.useHTTPS == "0"
			d.S3 = plan.S3{Endpoint: o.endpoint, Insecure: &insecure, Region: o.region, Addressing: o.addressing}
			d.Dir = u.Path == "" || strings.HasSuffix(u.Path, "/")
		default:
			d.Path = path.Base(u.Path)
		}
		item := worker.Item{Download: d}
		if access := os.Getenv("AWS_ACCESS_KEY_ID"); access != "" && u.Scheme == "s3" {
			item.Credentials = plan.Credentials{
				From: "the environment", AccessKey: plan.NewSecret(access),
				SecretKey: plan.NewSecret(os.Getenv("AWS_SECRET_ACCESS_KEY")), SessionToken: plan.NewSecret(os.Getenv("AWS_SESSION_TOKEN")),
			}
		}
		items = append(items, item)
	}
	return items, nil
}
