// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/sedna-io/containerd-shim-sedna/storage/plan"
)

// String is the finding on one line, as compilers write them.
func (f Finding) String() string {
	text := fmt.Sprintf("%s:%d: ", f.File, f.Line)
	if f.Key != "" {
		text += f.Key + ": "
	}
	text += f.Problem
	if f.Hint != "" {
		text += " (" + f.Hint + ")"
	}
	return text
}

// WriteTable writes a preview for people.
func WriteTable(w io.Writer, v Preview) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:%d: %s\n", v.File, v.Line, v.Pod)
	switch {
	case v.Plan != nil:
		writePlan(&b, v.Plan)
		writeContainers(&b, v.Containers)
	case len(v.Mistakes) == 0:
		b.WriteString("  asks for nothing\n")
	}
	for _, f := range v.Mistakes {
		fmt.Fprintf(&b, "  mistake: %s\n", f)
	}
	for _, f := range v.Warnings {
		fmt.Fprintf(&b, "  warning: %s\n", f)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func writePlan(b *strings.Builder, p *plan.Plan) {
	if len(p.Downloads) > 0 {
		fmt.Fprintf(b, "  downloads into the volume %q, which containers may %s\n", p.Volume, map[bool]string{false: "only read", true: "write"}[p.Writable])
	}
	var table strings.Builder
	t := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	for _, d := range p.Downloads {
		fmt.Fprintf(t, "    %s\tto %s\t%s\n", d.URL, target(d), options(d))
	}
	for _, h := range p.HostPaths {
		access := "read-only"
		if h.Writable {
			access = "writable if the node allows it"
		}
		fmt.Fprintf(t, "    folder %s of the node\tat %s\t%s\n", h.Source, h.Destination, access)
	}
	_ = t.Flush() // to a strings.Builder
	for row := range strings.Lines(table.String()) {
		b.WriteString(strings.TrimRight(row, " \n") + "\n")
	}
}

func target(d plan.Download) string {
	if d.Dir || d.Archive != plan.NoArchive {
		return d.Path + "/"
	}
	return d.Path
}

// options lists what isn't the default.
func options(d plan.Download) string {
	var out []string
	add := func(yes bool, format string, args ...any) {
		if yes {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	add(d.Archive != plan.NoArchive, "unpacked as %s", d.Archive)
	add(d.Indirect, "and what it lists")
	if d.URL.Scheme == "s3" && d.S3.Endpoint != "" {
		host, insecure, err := d.Endpoint(plan.Credentials{})
		add(err == nil, "from %s://%s", map[bool]string{false: "https", true: "http"}[insecure], host)
	}
	add(d.S3.Region != "", "region %s", d.S3.Region)
	add(d.Secret != "", "with the secret volume %q", d.Secret)
	add(d.Digest != "", "checked by its digest")
	add(len(d.Include) > 0, "only %s", strings.Join(d.Include, ";"))
	add(len(d.Exclude) > 0, "without %s", strings.Join(d.Exclude, ";"))
	add(d.Offline, "or from the cache")
	return strings.Join(out, ", ")
}

func writeContainers(b *strings.Builder, containers []Container) {
	for _, c := range containers {
		fmt.Fprintf(b, "  %s %q\n", c.Kind, c.Name)
		if len(c.Mounts)+len(c.Variables) == 0 {
			b.WriteString("    gets nothing\n")
		}
		for _, m := range c.Mounts {
			access := "rw"
			if m.ReadOnly {
				access = "ro"
			}
			own := ""
			if m.Own {
				own = ", its own mount"
			}
			fmt.Fprintf(b, "    %s at %s (%s%s)\n", m.Source, m.Destination, access, own)
		}
		for _, v := range c.Variables {
			if v.Own {
				fmt.Fprintf(b, "    %s stays as the container defines it\n", v.Name)
				continue
			}
			fmt.Fprintf(b, "    %s=%s\n", v.Name, v.Value)
		}
	}
}
