// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// maxMetrics bounds what is read of a metrics file: ours has about 2 KiB.
const maxMetrics = 64 << 10

// Count adds a result to the counters in a file, Prometheus' text format. The
// file is the only place that has them: every shim of the node adds its own,
// one at a time, and readers see all of an update or none. What can't be read
// starts again from zero, as counters may.
func Count(file string, r Result) error {
	d, err := openFolder(filepath.Dir(file), 0)
	if err != nil {
		return err
	}
	defer d.Close()
	name := filepath.Base(file)
	// Others lock this folder as they like, so the lock is a file of ours.
	lock, err := d.open("."+name+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := (folder{lock}).lock(); err != nil {
		return err
	}
	before, err := d.read(name, maxMetrics)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ELOOP):
	case err != nil:
		return err
	}
	c := readCounters(string(before))
	c.add(r)
	return d.replace(name, []byte(c.text()), 0o644) // node_exporter is not root
}

// counters holds values by the series' name and labels, as they are written.
type counters map[string]float64

// metric is what is known of one beside its values.
type metric struct {
	name, kind, help string
	series           []string // what follows the name, in the order written
}

// bounds are the upper ends of the histogram's buckets, seconds: from what a
// volume holds already to what needs several attempts.
var bounds = []string{"0.1", "0.5", "1", "5", "15", "60", "240"}

var metrics = []metric{
	{"sedna_downloads_total", "counter", "Attempts to bring a pod's downloads, by how they ended.", labelled("result", Success, Failed, Canceled)},
	{"sedna_download_failures_total", "counter", "Attempts that failed, by the kind of failure.", labelled("kind",
		"invalid_argument", "not_found", "permission_denied", "resource_exhausted", "unavailable", "failed_precondition",
		"data_loss", "deadline_exceeded", "internal")},
	{"sedna_download_bytes_total", "counter", "Bytes fetched over the network.", []string{""}},
	{"sedna_download_files_total", "counter", "Files brought into volumes by attempts that succeeded.", []string{""}},
	{"sedna_download_seconds", "histogram", "Time that attempts took, in seconds.", histogram()},
	{"sedna_cache_hits_total", "counter", "URLs whose content the node's cache had.", []string{""}},
	{"sedna_cache_misses_total", "counter", "URLs that were looked for in the node's cache and fetched.", []string{""}},
}

func labelled(label string, values ...string) []string {
	var series []string
	for _, v := range values {
		series = append(series, "{"+label+`="`+v+`"}`)
	}
	return series
}

func histogram() []string {
	var series []string
	for _, le := range append(bounds[:len(bounds):len(bounds)], "+Inf") {
		series = append(series, bucket(le))
	}
	return append(series, "_sum", "_count")
}

func bucket(le string) string { return `_bucket{le="` + le + `"}` }

// readCounters takes the values of series that this build knows.
func readCounters(text string) counters {
	c := counters{}
	for _, m := range metrics {
		for _, s := range m.series {
			c[m.name+s] = 0
		}
	}
	for line := range strings.Lines(text) {
		series, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		if _, known := c[series]; !ok || !known {
			continue
		}
		if v, err := parseValue(value); err == nil && v >= 0 && !math.IsInf(v, 0) {
			c[series] = v
		}
	}
	return c
}

func (c counters) add(r Result) {
	c[`sedna_downloads_total{result="`+r.Result+`"}`]++
	if r.Result == Failed && r.Failure != nil {
		c[failureSeries(c, r.Failure.Kind)]++
	}
	c["sedna_download_bytes_total"] += float64(max(r.Fetched, 0))
	if r.Result == Success {
		c["sedna_download_files_total"] += float64(max(r.Files, 0))
	}
	for _, le := range bounds {
		if end, _ := parseValue(le); r.Seconds <= end {
			c["sedna_download_seconds"+bucket(le)]++
		}
	}
	c["sedna_download_seconds"+bucket("+Inf")]++
	c["sedna_download_seconds_sum"] += max(r.Seconds, 0)
	c["sedna_download_seconds_count"]++
	for _, item := range r.Items {
		switch item.Cache {
		case "hit":
			c["sedna_cache_hits_total"]++
		case "miss":
			c["sedna_cache_misses_total"]++
		}
	}
}

// failureSeries keeps the kinds to those that are known: a worker says them.
func failureSeries(c counters, kind string) string {
	series := `sedna_download_failures_total{kind="` + kind + `"}`
	if _, known := c[series]; !known {
		return `sedna_download_failures_total{kind="internal"}`
	}
	return series
}

// text is the file.
func (c counters) text() string {
	var b strings.Builder
	for _, m := range metrics {
		b.WriteString("# HELP " + m.name + " " + m.help + "\n# TYPE " + m.name + " " + m.kind + "\n")
		for _, s := range m.series {
			b.WriteString(m.name + s + " " + formatValue(c[m.name+s]) + "\n")
		}
	}
	return b.String()
}

func parseValue(s string) (float64, error) { return strconv.ParseFloat(s, 64) }

func formatValue(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
