// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/sedna-io/containerd-shim-sedna/cmd/sedna-storage/manifest"
	"github.com/sedna-io/containerd-shim-sedna/cmd/sedna-storage/preview"
	"github.com/sedna-io/containerd-shim-sedna/internal/config"
)

// maxManifest bounds what is read; Kubernetes takes objects of up to 1.5 MiB.
const maxManifest = 32 << 20

// planOptions are the flags of `sedna-storage plan`.
type planOptions struct {
	files     []string
	output    string
	config    string
	namespace string
}

// planOutput is what -o json and -o yaml print.
type planOutput struct {
	Pods     []preview.Preview `json:"pods"`
	Mistakes []preview.Finding `json:"mistakes,omitempty"` // of no pod
}

func newPlan() *cobra.Command {
	var o planOptions
	cmd := &cobra.Command{
		Use:   "plan -f FILE...",
		Short: "Show what the pods of a manifest would get, and every mistake",
		Long: `Show what the pods of a manifest would get: downloads, mounts and variables of
each container, and every mistake with file, line and key. Nothing is fetched
and no cluster is asked.

A manifest has any number of YAML or JSON documents: pods, lists, and every
object with a pod template in it. With --config, a node's own settings count:
host paths are checked, and the containers that it skips are skipped.

Exit codes: 0 without a mistake (there may be warnings), 1 with one, 2 for
wrong usage.`,
		Example: `  sedna-storage plan -f pod.yaml
  helm template . | sedna-storage plan -f -
  sedna-storage plan -f a.yaml -f b.yaml -o json | jq '.pods[].plan.downloads'
  sedna-storage plan -f pod.yaml --config /etc/containerd/sedna/config.toml -n vision`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{fmt.Errorf("unexpected %q; name manifests by -f", args[0])}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVarP(&o.files, "filename", "f", nil, "manifest, - for standard input; may be repeated")
	flags.StringVarP(&o.output, "output", "o", "table", "table, json or yaml")
	flags.StringVar(&o.config, "config", "", "a node's config.toml; without it the defaults, and host paths aren't checked")
	flags.StringVarP(&o.namespace, "namespace", "n", "default", "namespace of pods that name none")
	return cmd
}

func (o *planOptions) run(stdin io.Reader, stdout io.Writer) error {
	if len(o.files) == 0 {
		return usageError{errors.New("no manifest; name one by -f, or - for standard input")}
	}
	if o.output != "table" && o.output != "json" && o.output != "yaml" {
		return usageError{fmt.Errorf("-o %q is none of table, json and yaml", o.output)}
	}
	node := preview.Node{Known: o.config != "", Namespace: o.namespace}
	var err error
	if node.Config, err = config.Load(o.config); err != nil {
		return err
	}
	var out planOutput
	for _, file := range o.files {
		if err := out.add(file, stdin, node); err != nil {
			return err
		}
	}
	if err := out.write(stdout, o.output); err != nil {
		return err
	}
	return out.verdict()
}

func (out *planOutput) add(file string, stdin io.Reader, node preview.Node) error {
	data, err := readManifest(file, stdin)
	if err != nil {
		return err
	}
	pods, problems, err := manifest.Read(file, data)
	if err != nil {
		return err
	}
	if len(pods) == 0 {
		return fmt.Errorf("%s has no pod and no pod template", file)
	}
	for _, pod := range pods {
		out.Pods = append(out.Pods, preview.Of(pod, node))
	}
	for _, p := range problems {
		out.Mistakes = append(out.Mistakes, preview.Finding{File: p.File, Line: p.Line, Key: p.Key, Problem: p.Text})
	}
	return nil
}

func readManifest(file string, stdin io.Reader) ([]byte, error) {
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, fmt.Errorf("read the manifest: %w", err)
		}
		defer f.Close()
		stdin = f
	}
	data, err := io.ReadAll(io.LimitReader(stdin, maxManifest+1))
	if err != nil {
		return nil, fmt.Errorf("read the manifest: %w", err)
	}
	if len(data) > maxManifest {
		return nil, fmt.Errorf("the manifest %s has more than %d bytes", file, maxManifest)
	}
	return data, nil
}

func (out *planOutput) write(w io.Writer, format string) error {
	switch format {
	case "json":
		encoder := json.NewEncoder(w)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		return encoder.Encode(out)
	case "yaml":
		text, err := yaml.Marshal(out)
		if err != nil {
			return fmt.Errorf("write as yaml: %w", err)
		}
		_, err = w.Write(text)
		return err
	}
	for _, p := range out.Pods {
		if err := preview.WriteTable(w, p); err != nil {
			return err
		}
	}
	for _, f := range out.Mistakes {
		if _, err := fmt.Fprintf(w, "mistake: %s\n", f); err != nil {
			return err
		}
	}
	return nil
}

// verdict is an error where there is a mistake.
func (out *planOutput) verdict() error {
	mistakes := len(out.Mistakes)
	for _, p := range out.Pods {
		mistakes += len(p.Mistakes)
	}
	switch mistakes {
	case 0:
		return nil
	case 1:
		return errors.New("1 mistake")
	default:
		return fmt.Errorf("%d mistakes", mistakes)
	}
}
