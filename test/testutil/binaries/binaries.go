// SPDX-License-Identifier: Apache-2.0

// Package binaries finds the programs that tests run, and builds this
// repository's own so that no test runs yesterday's.
//
//	bin/tools/                 foreign programs, by `make tools`
//	bin/tools/containerd-1.7/  another containerd and its ctr, see Containerd
//	bin/test/                  ours and the workload, by Build
package binaries

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"
)

// Names of what Build makes.
const (
	Shim     = "containerd-shim-sedna-v1"
	Worker   = "sedna-storage"
	Workload = "workload"
	// BadWorker misbehaves as the worker, by the name it is called by.
	BadWorker = "badworker"
	// GVisorShim starts gVisor's own shim, to compare with.
	GVisorShim = "gvisorshim"
	// Policy is a CNI plugin.
	Policy = "policy"
)

// GVisor is gVisor's own shim, one of the tools.
const GVisor = "containerd-shim-runsc-v1"

// tools are the foreign programs that a node needs beside containerd.
var tools = []string{"runsc", GVisor, "bridge", "host-local", "loopback", "versitygw"}

// containerdEnv names another version of containerd than the one that tests
// run on: "1.7" or "2.1".
const containerdEnv = "SEDNA_CONTAINERD"

// Containerd is the folder of containerd and ctr, and the version that was asked
// for, "" for the usual one.
func Containerd() (dir, version string, err error) {
	version = os.Getenv(containerdEnv)
	_, tools, err := Dirs()
	return folder(tools, version), version, err
}

// folder is where the tools have a version of containerd.
func folder(tools, version string) string {
	if version == "" {
		return tools
	}
	return filepath.Join(tools, "containerd-"+version)
}

// module is this repository's; test/e2e and the tools have modules of their own.
const module = "module github.com/sedna-io/containerd-shim-sedna\n"

// Root is the folder of this repository: the nearest one upwards with its go.mod.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for at := dir; ; at = filepath.Dir(at) {
		if text, err := os.ReadFile(filepath.Join(at, "go.mod")); err == nil && strings.HasPrefix(string(text), module) {
			return at, nil
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("no go.mod of this repository at or above %s", dir)
		}
	}
}

// Dirs are the folders of our programs and of the tools.
func Dirs() (ours, tools string, err error) {
	root, err := Root()
	if err != nil {
		return "", "", err
	}
	return filepath.Join(root, "bin", "test"), filepath.Join(root, "bin", "tools"), nil
}

// Missing says what has to be built before a node can start, or is "".
func Missing() string { return MissingFor(os.Getenv(containerdEnv)) }

// MissingFor is Missing for a node with another version of containerd.
func MissingFor(version string) string {
	_, dir, err := Dirs()
	if err != nil {
		return err.Error()
	}
	missing := append(absent(folder(dir, version), "containerd", "ctr"), absent(dir, tools...)...)
	if len(missing) == 0 {
		return ""
	}
	target := "tools"
	if version != "" {
		target = "tools-containerd"
	}
	return fmt.Sprintf("bin/tools lacks %s: run `make %s`", strings.Join(missing, ", "), target)
}

// UseContainerd changes the version that Containerd finds, for this process.
func UseContainerd(version string) error { return os.Setenv(containerdEnv, version) }

// absent are the files that a folder doesn't have.
func absent(dir string, names ...string) []string {
	var missing []string
	for _, name := range names {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			missing = append(missing, name)
		}
	}
	return missing
}

// Build brings bin/test up to date. Test packages that start at the same time
// build one after the other. A machine without Go, as that of test/cgroup2, got
// bin/test with the tests.
func Build() error { return BuildWith(nil) }

// BuildWith is Build with further packages, by the names of their programs.
func BuildWith(more map[string]string) error {
	if _, err := exec.LookPath("go"); err != nil {
		return nil
	}
	root, err := Root()
	if err != nil {
		return err
	}
	dir := filepath.Join(root, "bin", "test")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	lock := flock.New(filepath.Join(dir, ".lock"))
	if err := lock.Lock(); err != nil {
		return fmt.Errorf("lock %s: %w", dir, err)
	}
	defer lock.Unlock()
	packages := map[string]string{
		Shim: "./cmd/" + Shim, Worker: "./cmd/" + Worker, Workload: "./test/workload", GVisorShim: "./test/gvisorshim",
		Policy:    "./test/policy",
		BadWorker: "./test/badworker",
	}
	maps.Copy(packages, more)
	var errs []error
	for name, pkg := range packages {
		errs = append(errs, build(root, filepath.Join(dir, name), pkg))
	}
	return errors.Join(errs...)
}

// build leaves a file alone that is what the source would give.
func build(root, file, pkg string) error {
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", file, pkg)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", pkg, err, out)
	}
	return nil
}
