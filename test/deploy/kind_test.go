// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil/binaries"
)

// kindConfig has the shape of what kind's node image brings: kubernetes-sigs/kind
// images/base/files/etc/containerd/config.toml. The CRI's own table comes after
// those below it.
const kindConfig = `# of a node image
version = 2

[proxy_plugins]
[proxy_plugins."fuse-overlayfs"]
  type = "snapshot"
  address = "/run/containerd-fuse-overlayfs.sock"

[plugins."io.containerd.grpc.v1.cri".containerd]
  snapshotter = "overlayfs"
  default_runtime_name = "runc"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.test-handler]
  runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "registry.test/pause:1"
`

// The steps of test/kind/run that need no Docker: what goes into a node, and
// what it does there.
func TestANodeOfKindGetsTheHandler(t *testing.T) {
	root, err := binaries.Root()
	if err != nil {
		t.Fatal(err)
	}
	if missing := binaries.Missing(); missing != "" {
		t.Skip(missing)
	}
	content := t.TempDir()
	cmd := exec.Command(filepath.Join(root, "test/kind/run"), "package", content)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for version, containerd := range containerds(t) {
		t.Run(version, func(t *testing.T) {
			in := newInstallation(t, containerd)
			in.write(config, kindConfig)
			for range 2 {
				out, err := exec.Command("sh", filepath.Join(content, "deploy/install.sh"),
					"install", "--root", in.root, "--containerd", containerd).CombinedOutput()
				if err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
			}
			dump := in.dump(config)
			checkHandler(t, dump)
			for _, kept := range []string{"registry.test/pause:1", "default_runtime_name = 'runc'", "runtimes.test-handler]"} {
				if !strings.Contains(dump, kept) {
					t.Errorf("%q is gone from what containerd reads", kept)
				}
			}
			in.succeeds("verify")
		})
	}
}

func TestThePodsOfKindAskForWhatTheyRead(t *testing.T) {
	root, err := binaries.Root()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "run", "./cmd/sedna-storage", "plan", "-f", "test/kind/pods.yaml")
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if want := "/downloads/models.default.svc.cluster.local/v1/model"; !strings.Contains(string(out), want) {
		t.Errorf("the detector reads %s, but gets:\n%s", want, out)
	}
}

// The scripts that people run as root, if shellcheck is there.
func TestScriptsAreCleanForShellcheck(t *testing.T) {
	tool, err := exec.LookPath("shellcheck")
	if err != nil {
		t.Skip("shellcheck isn't installed")
	}
	root, err := binaries.Root()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(tool, "deploy/install.sh", "test/kind/run")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
