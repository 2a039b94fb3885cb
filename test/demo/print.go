// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/dustin/go-humanize"
)

// printer writes the story to standard output.
type printer struct{ titles int }

func (p *printer) title(format string, args ...any) {
	if p.titles++; p.titles > 1 {
		fmt.Println()
	}
	fmt.Printf(format+"\n", args...)
}

// phase is something that took its time.
func (p *printer) phase(what string, took time.Duration) {
	fmt.Printf("  %-66s %8s\n", what, took.Round(time.Millisecond))
}

func (p *printer) note(format string, args ...any) { fmt.Printf("  "+format+"\n", args...) }

func (p *printer) annotations(annotations map[string]string) {
	fmt.Println("  annotations:")
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		fmt.Printf("    %s: %q\n", key, annotations[key])
	}
}

func (p *printer) fileHeader() {
	fmt.Printf("  %-46s %9s  %-16s  %-16s\n", "file below "+mountPath, "size", "sha256 inside", "at the source")
}

// file shows the first sixteen digits of each digest; all of them were compared.
func (p *printer) file(path string, size int64, inside, source string) {
	verdict := "same"
	if inside != source {
		verdict = "DIFFERENT"
	}
	fmt.Printf("  %-46s %9s  %-16.16s  %-16.16s  %s\n", path, humanize.IBytes(uint64(size)), inside, source, verdict)
}
