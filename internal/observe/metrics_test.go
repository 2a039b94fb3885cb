// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"golang.org/x/sys/unix"

	"github.com/sedna-io/containerd-shim-sedna/storage/worker"
)

func count(t *testing.T, file string, results ...Result) {
	t.Helper()
	for _, r := range results {
		if err := Count(file, r); err != nil {
			t.Fatal(err)
		}
	}
}

// has fails for each line that a file lacks.
func has(t *testing.T, file string, lines ...string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines {
		if !strings.Contains("\n"+string(data), "\n"+line+"\n") {
			t.Errorf("it lacks the line %s:\n%s", line, data)
		}
	}
}

func TestResultsAddUpInTheMetricsFile(t *testing.T) {
	defer unix.Umask(unix.Umask(0o077)) // as hardened nodes have it
	file := filepath.Join(t.TempDir(), "sedna.prom")
	count(t, file,
		Result{Result: Success, Bytes: 3 << 40, Fetched: 2 << 40, Files: 7, Seconds: 0.25, Items: []Item{{Cache: "hit"}, {Cache: "miss"}, {Cache: "found"}, {}}},
		Result{Result: Success, Seconds: 500, Items: []Item{{Cache: "hit"}}},
		Result{Result: Failed, Fetched: 5, Files: 1, Seconds: 60, Failure: &worker.Failure{Kind: "not_found", Message: "secret"}},
		Result{Result: Failed, Failure: &worker.Failure{Kind: "evil\"} 1\n"}},
		Result{Result: Canceled, Failure: &worker.Failure{Kind: "canceled"}},
	)
	has(t, file,
		`sedna_downloads_total{result="success"} 2`,
		`sedna_downloads_total{result="failure"} 2`,
		`sedna_downloads_total{result="canceled"} 1`,
		`sedna_download_failures_total{kind="not_found"} 1`,
		`sedna_download_failures_total{kind="internal"} 1`,
		`sedna_download_failures_total{kind="unavailable"} 0`,
		`sedna_download_bytes_total 2199023255557`,
		`sedna_download_files_total 7`,
		`sedna_download_seconds_bucket{le="0.1"} 2`,
		`sedna_download_seconds_bucket{le="0.5"} 3`,
		`sedna_download_seconds_bucket{le="60"} 4`,
		`sedna_download_seconds_bucket{le="240"} 4`,
		`sedna_download_seconds_bucket{le="+Inf"} 5`,
		`sedna_download_seconds_sum 560.25`,
		`sedna_download_seconds_count 5`,
		`sedna_cache_hits_total 2`,
		`sedna_cache_misses_total 1`,
	)
	if info, err := os.Stat(file); err != nil || info.Mode() != 0o644 {
		t.Errorf("others can't read it: %v, %v", info.Mode(), err)
	}
}

func TestTheMetricsKeepPrometheusConventions(t *testing.T) {
	file := filepath.Join(t.TempDir(), "sedna.prom")
	count(t, file, exampleResult(0))
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	problems, err := promlint.New(f).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func TestEveryKindOfFailureIsCounted(t *testing.T) {
	file := filepath.Join(t.TempDir(), "sedna.prom")
	for _, kind := range worker.Kinds() {
		if kind == "canceled" { // which is no failure
			continue
		}
		count(t, file, Result{Result: Failed, Failure: &worker.Failure{Kind: kind}})
		has(t, file, `sedna_download_failures_total{kind="`+kind+`"} 1`)
	}
}

func TestABrokenMetricsFileStartsAnew(t *testing.T) {
	for name, before := range map[string]string{
		"empty":           "",
		"another program": "# HELP x\nx{a=\"b\"} 5\n",
		"half a file":     "# HELP sedna_downloads_total x\nsedna_downloads_to",
		"impossible":      "sedna_downloads_total{result=\"failure\"} -5\nsedna_download_bytes_total NaN\nsedna_download_seconds_sum +Inf\n",
		"binary":          "\x00\xff\n\n\n",
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "sedna.prom")
			if err := os.WriteFile(file, []byte(before), 0o600); err != nil {
				t.Fatal(err)
			}
			count(t, file, exampleResult(0))
			has(t, file, `sedna_downloads_total{result="failure"} 1`, `sedna_download_bytes_total 2`, `sedna_download_seconds_sum 1.5`)
		})
	}
}

func TestTheMetricsFileIsNeverALinkElsewhere(t *testing.T) {
	dir, victim := t.TempDir(), filepath.Join(t.TempDir(), "victim")
	if err := os.WriteFile(victim, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "sedna.prom")
	for _, planted := range []string{file, filepath.Join(dir, ".sedna.prom.tmp")} {
		if err := os.Symlink(victim, planted); err != nil {
			t.Fatal(err)
		}
	}
	count(t, file, exampleResult(0))
	has(t, file, `sedna_downloads_total{result="failure"} 1`)
	lock := filepath.Join(dir, ".sedna.prom.lock")
	if err := os.Remove(lock); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(victim, lock); err != nil {
		t.Fatal(err)
	}
	if err := Count(file, exampleResult(0)); err == nil {
		t.Error("the lock is a link, and nobody is told")
	}
	if got, _ := os.ReadFile(victim); string(got) != "mine" {
		t.Errorf("the file outside holds %q", got)
	}
}

func TestAMissingFolderForMetricsIsAnError(t *testing.T) {
	if err := Count(filepath.Join(t.TempDir(), "absent", "sedna.prom"), exampleResult(0)); err == nil {
		t.Error("nobody is told")
	}
}

func FuzzMetricsFilesOfOthers(f *testing.F) {
	f.Add("sedna_downloads_total{result=\"failure\"} 5\n")
	f.Add("sedna_download_seconds_sum 1e300\nsedna_download_seconds_sum 0x1p5\n")
	f.Fuzz(func(t *testing.T, before string) {
		c := readCounters(before)
		c.add(exampleResult(0))
		problems, err := promlint.New(strings.NewReader(c.text())).Lint()
		if err != nil || len(problems) > 0 {
			t.Errorf("%q makes %v, %v", before, problems, err)
		}
		for series, v := range readCounters(c.text()) {
			if v != c[series] {
				t.Errorf("%s is %v and is read as %v", series, c[series], v)
			}
		}
	})
}
