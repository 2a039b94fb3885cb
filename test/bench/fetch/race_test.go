// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"
)

// contender is a program that does the job once, into a fresh folder.
type contender struct {
	name string
	args func(dir string) []string
	env  []string
}

// result is one measured process.
type result struct {
	wall time.Duration
	rss  int64 // bytes at most
}

func (c contender) run(t testing.TB, scratch string) result {
	t.Helper()
	dir, err := os.MkdirTemp(scratch, "run") //nolint:usetesting // it must be in memory
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	args := c.args(dir)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), c.env...)
	cmd.Dir = dir
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	began := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	peak := make(chan int64)
	go func() { peak <- watchMemory(cmd.Process.Pid, done) }()
	err = cmd.Wait()
	wall := time.Since(began)
	close(done)
	rss := <-peak
	if err != nil {
		t.Fatalf("%s: %v\n%s", c.name, err, out.String())
	}
	return result{wall, rss}
}

// watchMemory reads a process's peak until done. A child's rusage won't do: it
// begins with the peak of the process that forked it.
func watchMemory(pid int, done chan struct{}) (peak int64) {
	for {
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if _, rest, ok := bytes.Cut(status, []byte("VmHWM:")); ok {
			var kib int64
			_, _ = fmt.Sscan(string(rest), &kib)
			peak = max(peak, kib<<10)
		}
		select {
		case <-done:
			return peak
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// rounds is how many interleaved pairs are run.
func rounds() int {
	if n, err := strconv.Atoi(os.Getenv("ROUNDS")); err == nil && n > 0 {
		return n
	}
	return 9
}

// race runs ours and theirs in turn and reports medians and the median of the
// pairs' ratios with its spread.
func race(b *testing.B, scratch string, ours, theirs contender, wanted float64) {
	b.Helper()
	ours.run(b, scratch) // once each, to warm servers and memory
	theirs.run(b, scratch)
	var mine, other, ratios []float64
	rss := int64(0)
	for i := range rounds() {
		var a, z result
		if i%2 == 0 {
			a, z = ours.run(b, scratch), theirs.run(b, scratch)
		} else {
			z, a = theirs.run(b, scratch), ours.run(b, scratch)
		}
		mine, other = append(mine, a.wall.Seconds()), append(other, z.wall.Seconds())
		ratios = append(ratios, a.wall.Seconds()/z.wall.Seconds())
		rss = max(rss, a.rss)
	}
	slices.Sort(mine)
	slices.Sort(other)
	slices.Sort(ratios)
	n := len(ratios)
	b.ReportMetric(ratios[n/2], "ratio")
	b.ReportMetric(float64(rss>>20), "MiB-rss")
	fmt.Printf("%-34s ours %.3f s [%.3f-%.3f], %s %.3f s [%.3f-%.3f], ratio %.2f [%.2f-%.2f], wanted %.2f, peak %d MiB\n",
		b.Name(), mine[n/2], mine[0], mine[n-1], theirs.name, other[n/2], other[0], other[n-1],
		ratios[n/2], ratios[n/4], ratios[n-1-n/4], wanted, rss>>20)
}

// scratch is a folder in memory, so that no disk is measured.
func scratch(b *testing.B) string {
	b.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "sedna-bench") //nolint:usetesting // likewise
	if err != nil {
		b.Skipf("no memory file system: %v", err)
	}
	b.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// program finds a peer on the PATH or among our tools.
func program(b *testing.B, name, how string) string {
	b.Helper()
	for _, dir := range []string{os.Getenv("SEDNA_TOOLS"), "../../../bin/tools"} {
		if p, err := filepath.Abs(filepath.Join(dir, name)); dir != "" && err == nil {
			if _, err := os.Stat(p); err == nil {
				return p
			}
		}
	}
	p, err := exec.LookPath(name)
	if err != nil {
		b.Skipf("%s isn't here; %s", name, how)
	}
	return p
}

// build builds our command as it is shipped.
func build(b *testing.B) string {
	b.Helper()
	return buildAt(b, "../../../cmd/sedna-storage")
}

func buildAt(b *testing.B, dir string) string {
	b.Helper()
	out := filepath.Join(b.TempDir(), filepath.Base(dir))
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", out, dir)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("build: %v\n%s", err, text)
	}
	return out
}
