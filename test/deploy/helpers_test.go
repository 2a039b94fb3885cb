// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil/binaries"
)

// containerds are those that bin/tools has, by version.
func containerds(t *testing.T) map[string]string {
	t.Helper()
	_, tools, err := binaries.Dirs()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for version, file := range map[string]string{
		"1.7": "containerd-1.7/containerd", "2.1": "containerd-2.1/containerd", "2.4": "containerd",
	} {
		path := filepath.Join(tools, file)
		if _, err := os.Stat(path); err == nil {
			found[version] = path
		} else {
			t.Logf("not tested with containerd %s: run `make tools tools-containerd`", version)
		}
	}
	if len(found) == 0 {
		t.Skip("there is no containerd in bin/tools")
	}
	return found
}

// installation is a node's file system that the script works on.
type installation struct {
	t          *testing.T
	root       string
	containerd string
}

func newInstallation(t *testing.T, containerd string) installation {
	t.Helper()
	in := installation{t: t, root: t.TempDir(), containerd: containerd}
	for _, program := range []string{binaries.Shim, binaries.Worker} {
		in.write("/from/"+program, "#!/bin/sh\n")
	}
	return in
}

func (in installation) path(name string) string { return filepath.Join(in.root, name) }

func (in installation) write(name, text string) {
	in.t.Helper()
	if err := os.MkdirAll(filepath.Dir(in.path(name)), 0o755); err != nil {
		in.t.Fatal(err)
	}
	if err := os.WriteFile(in.path(name), []byte(text), 0o644); err != nil {
		in.t.Fatal(err)
	}
}

func (in installation) read(name string) string {
	in.t.Helper()
	text, err := os.ReadFile(in.path(name))
	if err != nil {
		in.t.Fatal(err)
	}
	return string(text)
}

func (in installation) exists(name string) bool {
	_, err := os.Lstat(in.path(name))
	return err == nil
}

// run runs the script and returns what it said.
func (in installation) run(args ...string) (string, error) {
	in.t.Helper()
	root, err := binaries.Root()
	if err != nil {
		in.t.Fatal(err)
	}
	args = append([]string{filepath.Join(root, "deploy/install.sh")}, args...)
	args = append(args, "--root", in.root, "--from", in.path("/from"), "--containerd", in.containerd)
	cmd := exec.Command("sh", args...)
	cmd.WaitDelay = time.Minute
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (in installation) succeeds(args ...string) string {
	in.t.Helper()
	out, err := in.run(args...)
	if err != nil {
		in.t.Fatalf("install.sh %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// fails expects an error that says all of the given.
func (in installation) fails(says []string, args ...string) {
	in.t.Helper()
	out, err := in.run(args...)
	if err == nil {
		in.t.Fatalf("install.sh %s succeeded:\n%s", strings.Join(args, " "), out)
	}
	for _, part := range says {
		if !strings.Contains(out, part) {
			in.t.Errorf("%q is not in: %s", part, out)
		}
	}
}

// dump is what containerd reads in a configuration.
func (in installation) dump(name string) string {
	in.t.Helper()
	out, err := exec.Command(in.containerd, "--config", in.path(name), "config", "dump").Output()
	if err != nil {
		in.t.Fatalf("%s can't read %s: %v", in.containerd, name, err)
	}
	return strings.ReplaceAll(string(out), `"`, `'`)
}

// defaults is the configuration that this containerd would write by itself.
func (in installation) defaults() string {
	in.t.Helper()
	out, err := exec.Command(in.containerd, "config", "default").Output()
	if err != nil {
		in.t.Fatal(err)
	}
	return string(out)
}
