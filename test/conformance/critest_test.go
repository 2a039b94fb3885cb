// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil/binaries"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/node"
)

// How a spec ended.
const (
	pass = "pass"
	fail = "fail"
	skip = "skip"
)

// unmakeable names an image by a digest that nothing but the original has. It
// concerns containerd's image service alone.
const unmakeable = "public image with digest should be pulled and removed"

// critestDir is where critest leaves its files.
const critestDir = node.Dir + "/critest"

// outcome is how one spec ended, and why if it didn't pass.
type outcome struct {
	spec, state, message string
	took                 time.Duration
}

// critest runs the suite, or the specs that one of focus matches, on a node.
func critest(ctx context.Context, focus []string, output *os.File) ([]outcome, error) {
	_, tools, err := binaries.Dirs()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(critestDir, 0o777); err != nil {
		return nil, err
	}
	report := filepath.Join(critestDir, "report.json")
	args := []string{
		"-runtime-endpoint", node.Endpoint, "-nri-socket", node.NRISocket,
		"-ginkgo.no-color", "-ginkgo.json-report", report, "-ginkgo.skip", unmakeable,
	}
	for _, each := range focus {
		args = append(args, "-ginkgo.focus", each)
	}
	cmd := exec.CommandContext(ctx, filepath.Join(tools, "critest"), args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(unix.SIGTERM) } // it still writes its report
	cmd.WaitDelay = time.Minute
	cmd.Dir = critestDir
	cmd.Env = append(os.Environ(), "TMPDIR="+critestDir)
	cmd.Stdout, cmd.Stderr = output, output
	ended := cmd.Run() // specs that failed are an exit code too
	outcomes, err := readReport(report)
	if err != nil {
		return nil, fmt.Errorf("critest ended without a report: %w", errors.Join(ended, err))
	}
	return outcomes, nil
}

// spec is the part that we need of ginkgo's report: onsi/ginkgo/v2
// types/types.go:SpecReport.
type spec struct {
	ContainerHierarchyTexts []string
	LeafNodeType            string
	LeafNodeText            string
	State                   string
	RunTime                 time.Duration
	Failure                 struct{ Message string }
}

func (s spec) name() string {
	parts := make([]string, 0, len(s.ContainerHierarchyTexts)+1)
	for _, part := range append(s.ContainerHierarchyTexts, s.LeafNodeText) {
		parts = append(parts, strings.Join(strings.Fields(part), " "))
	}
	return strings.Join(parts, " > ")
}

// exactly is the focus that matches the spec of a name.
func exactly(name string) string { return regexp.QuoteMeta(strings.ReplaceAll(name, " > ", " ")) + "$" }

func readReport(file string) ([]outcome, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var suites []struct{ SpecReports []spec }
	if err := json.Unmarshal(data, &suites); err != nil {
		return nil, fmt.Errorf("read critest's report: %w", err)
	}
	var all []outcome
	for _, suite := range suites {
		for _, each := range suite.SpecReports {
			if state := stateOf(each.State); each.LeafNodeType == "It" && !filtered(each) {
				all = append(all, outcome{each.name(), state, each.Failure.Message, each.RunTime})
			}
		}
	}
	return all, nil
}

// filtered says whether a spec was left out by -ginkgo.focus or -ginkgo.skip,
// which leaves no message, unlike a Skip in the spec.
func filtered(s spec) bool { return s.State == "skipped" && s.Failure.Message == "" }

func stateOf(ginkgo string) string {
	switch ginkgo {
	case "passed":
		return pass
	case "skipped", "pending":
		return skip
	}
	return fail
}
