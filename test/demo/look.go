// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil/node"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/report"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/web"
)

// look prints what the container sees, and fails when that isn't what the
// servers hold.
func look(ctx context.Context, p *printer, c *node.Container, files map[string][]byte) error {
	p.title("Inside the container")
	if err := lookAtKernel(ctx, p, c); err != nil {
		return err
	}
	for _, name := range []string{"MODEL_URL", "DATA_URL"} {
		value, err := c.Exec(ctx, "env", name)
		if err != nil {
			return err
		}
		p.note("%-10s %s", name, strings.TrimSpace(value))
	}
	if err := lookAtFiles(ctx, p, c, files); err != nil {
		return err
	}
	var refused *node.ExitError
	file := mountPath + "/" + slices.Sorted(maps.Keys(files))[0]
	if _, err := c.Exec(ctx, "write", file, "changed"); !errors.As(err, &refused) {
		return fmt.Errorf("a write to %s should have been refused: %w", file, err)
	}
	p.note("%-10s %s", "write", strings.TrimSpace(refused.Stderr))
	return nil
}

func lookAtKernel(ctx context.Context, p *printer, c *node.Container) error {
	out, err := c.Exec(ctx, "uname")
	if err != nil {
		return err
	}
	var kernel report.Kernel
	if err := json.Unmarshal([]byte(out), &kernel); err != nil {
		return err
	}
	log, err := c.Exec(ctx, "dmesg")
	if err != nil {
		return err
	}
	// "<6>[   0.000000] Starting gVisor..."
	first, _, _ := strings.Cut(log, "\n")
	_, text, _ := strings.Cut(first, "] ")
	p.note("%-10s %s %s, which says %q", "kernel", kernel.Sysname, kernel.Release, text)
	return nil
}

// lookAtFiles compares every file's sha256 inside with that of the source.
func lookAtFiles(ctx context.Context, p *printer, c *node.Container, want map[string][]byte) error {
	out, err := c.Exec(ctx, "tree", mountPath)
	if err != nil {
		return err
	}
	got := map[string]report.File{}
	for line := range strings.Lines(out) {
		var file report.File
		if err := json.Unmarshal([]byte(line), &file); err != nil {
			return err
		}
		if !strings.HasPrefix(file.Path, ".sedna/") { // the shim's own notes
			got[file.Path] = file
		}
	}
	if len(got) != len(want) {
		err = fmt.Errorf("the container sees %d files, the servers have %d", len(got), len(want))
	}
	p.fileHeader()
	for _, path := range slices.Sorted(maps.Keys(want)) {
		inside, source := got[path], web.Sum(want[path])
		p.file(path, int64(len(want[path])), inside.SHA256, source)
		if inside.SHA256 != source {
			err = errors.Join(err, fmt.Errorf("%s differs from its source", path))
		}
	}
	return err
}

// downloadLine is what the shim's log says of the download.
func downloadLine(log string) string {
	const said = "downloads are complete: "
	for line := range strings.Lines(log) {
		if _, after, ok := strings.Cut(line, said); ok {
			text, _, _ := strings.Cut(after, `"`)
			return text
		}
	}
	return "nothing"
}
