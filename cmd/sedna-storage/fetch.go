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

	"github.com/containerd/errdefs"
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

  # a checked archive, unpacked into ./models; or kept as it is
  sedna-storage fetch --digest sha256:HEX https://host/model.tar.gz ./models
  sedna-storage fetch --unpack never https://host/model.tar.gz ./models

  # some of a prefix, with credentials as a pod's secret volume has them
  sedna-storage fetch --secret-dir ./secret --include '**/*.safetensors' s3://bucket/model/ ./models

  # for scripts: one JSON object a line
  sedna-storage fetch --json s3://bucket/model/ ./models`

const defaultConnections = 32

// fetchOptions are what the flags of fetch say.
type fetchOptions struct {
	endpoint, region, addressing, useHTTPS string
	digests, include, exclude              []string
	unpack, secretDir, caFile              string
	index, json                            bool
	concurrency                            int
	bandwidth                              string
}

func newFetch() *cobra.Command {
	var o fetchOptions
	cmd := &cobra.Command{
		Use:   "fetch URL... DIR",
		Short: "Download files and S3 prefixes into a folder, as the shim does for a pod",
		Long: `Download files and S3 prefixes into a folder, as the shim does for a pod.

A file lands at DIR/NAME, the objects of an S3 prefix and the content of an
archive below DIR. What is whole appears under its name; what is half done
stays in DIR/.sedna, and the same command goes on from there.

Credentials come from the environment, by the names that a pod's secret may
have (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, BEARER_TOKEN, ...), or from the
files of --secret-dir. HF_TOKEN of the environment goes to Hugging Face only.

It ends with 0 when all is there, 1 when something failed, 2 for a wrong call.`,
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
	f.StringVar(&o.endpoint, "endpoint", "", "S3 service: HOST, HOST:PORT or URL (default s3.amazonaws.com)")
	f.StringVar(&o.region, "region", "", "S3 region (default: what the server says)")
	f.StringVar(&o.addressing, "s3-addressing", "auto", "where the bucket's name goes: auto, path or virtual")
	f.StringVar(&o.useHTTPS, "s3-usehttps", "", `"0" for plain http (default "1")`)
	f.StringArrayVar(&o.digests, "digest", nil, "sha256:HEX that the file must have; one for each URL, in order")
	f.StringVar(&o.unpack, "unpack", "auto", "auto: unpack what is named like an archive; never: keep it")
	f.StringArrayVar(&o.include, "include", nil, "only files that match a pattern, like '**/*.bin'")
	f.StringArrayVar(&o.exclude, "exclude", nil, "no files that match a pattern")
	f.StringVar(&o.secretDir, "secret-dir", "", "folder of credential files, as a pod's secret volume")
	f.StringVar(&o.caFile, "ca-file", "", "PEM file of certificates to trust besides the system's")
	f.BoolVar(&o.index, "index", false, "the URL names an index file, whose lines are fetched")
	f.IntVar(&o.concurrency, "concurrency", defaultConnections, "connections at most, used as far as they help")
	f.StringVar(&o.bandwidth, "bandwidth", "", "bytes per second at most, like 20MB")
	f.BoolVar(&o.json, "json", false, "write events as JSON, one a line")
	return cmd
}

func (o *fetchOptions) run(ctx context.Context, urls []string, dir string, out, status io.Writer) error {
	req, err := o.request(urls, dir)
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
	view := newView(o.json, out, status)
	options := append([]storage.Option{storage.Shared()}, view.options()...)
	report, err := storage.Run(ctx, root, req, view.event, options...)
	view.close()
	if err != nil {
		return o.failed(ctx, err, view, out)
	}
	if o.json {
		return json.NewEncoder(out).Encode(worker.Event{Report: report})
	}
	fmt.Fprintln(out, summary(report))
	return nil
}

// failed tells a person how to go on.
func (o *fetchOptions) failed(ctx context.Context, err error, v view, out io.Writer) error {
	if ctx.Err() != nil {
		err = interrupted(v.sofar())
	} else {
		text := byFlags.Replace(err.Error())
		if errors.Is(err, errdefs.ErrUnavailable) {
			text += "; what has arrived is kept, and the same command goes on from there"
		}
		err = &reworded{text, err}
	}
	if !o.json {
		return err
	}
	f := storage.AsFailure(err)
	if failed := json.NewEncoder(out).Encode(worker.Event{Failure: &f}); failed != nil {
		return failed
	}
	return errTold
}

// byFlags says by flags what errors tell pods to say by annotations.
var byFlags = strings.NewReplacer(
	"name a volume with credentials in the annotation storage.sedna.io/secret", "give credentials in the environment or by --secret-dir",
	"put its CA into the secret as ca.crt, or into the node's [storage] ca_file", "name its CA by --ca-file",
	"storage.sedna.io/s3-region", "--region",
	`s3-usehttps "0" for S3`, "--s3-usehttps 0 for S3",
	`set unpack to "never"`, "use --unpack never",
)

// reworded is an error in other words.
type reworded struct {
	text string
	err  error
}

func (r *reworded) Error() string { return r.text }
func (r *reworded) Unwrap() error { return r.err }

// interrupted is the error of a person's Ctrl-C, with how far it got.
type interrupted string

func (i interrupted) Error() string {
	return "interrupted" + string(i) + "; what has arrived is kept, and the same command goes on from there"
}

func (interrupted) Unwrap() error { return context.Canceled }

func (o *fetchOptions) request(urls []string, dir string) (worker.Request, error) {
	req := worker.Request{Dir: dir, Limits: worker.Limits{Concurrency: o.concurrency}}
	if o.concurrency < 1 {
		return req, errors.New("--concurrency is at least 1")
	}
	if len(o.digests) > 0 && len(o.digests) != len(urls) {
		return req, fmt.Errorf("there are %d digests for %d URLs", len(o.digests), len(urls))
	}
	if err := o.limits(&req); err != nil {
		return req, err
	}
	if o.caFile != "" {
		pem, err := os.ReadFile(o.caFile)
		if err != nil {
			return req, err
		}
		req.Network.CABundle = pem
	}
	for i, raw := range urls {
		item, err := o.item(raw)
		if err != nil {
			return req, err
		}
		if len(o.digests) > 0 {
			item.Digest = strings.ToLower(o.digests[i])
		}
		req.Items = append(req.Items, item)
	}
	return req, nil
}

// item is what one URL asks for, as the plan of a pod would have it.
func (o *fetchOptions) item(raw string) (worker.Item, error) {
	u, err := plan.ParseURL(raw)
	if err != nil {
		return worker.Item{}, err
	}
	d := plan.Download{URL: u, Indirect: o.index, Include: o.include, Exclude: o.exclude}
	if o.unpack == "auto" && !o.index {
		d.Archive = plan.ArchiveOf(u.Path)
	} else if o.unpack != "auto" && o.unpack != "never" {
		return worker.Item{}, errors.New("--unpack is auto or never")
	}
	if u.Scheme == "s3" {
		d.Dir = u.Path == "" || strings.HasSuffix(u.Path, "/")
		if err := o.service(&d.S3); err != nil {
			return worker.Item{}, err
		}
	}
	if o.index {
		d.Path = path.Base(u.Path)
	}
	c, err := o.credentials(u)
	return worker.Item{Download: d, Credentials: c}, err
}

func (o *fetchOptions) service(s *plan.S3) error {
	s.Region, s.Addressing = o.region, o.addressing
	switch o.addressing {
	case "auto", "path", "virtual":
	default:
		return errors.New("--s3-addressing is auto, path or virtual")
	}
	if o.endpoint != "" {
		host, insecure, err := plan.ParseEndpoint(o.endpoint)
		if err != nil {
			return err
		}
		s.Endpoint, s.Insecure = host, insecure
	}
	switch o.useHTTPS {
	case "":
	case "0", "1":
		plain := o.useHTTPS == "0"
		s.Insecure = &plain
	default:
		return errors.New("--s3-usehttps is 0 or 1")
	}
	return nil
}
