// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/binaries"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/node"
)

// protoText is one field of a protobuf message.
func protoText(number protowire.Number, value string) []byte {
	return protowire.AppendString(protowire.AppendTag(nil, number, protowire.BytesType), value)
}

// anyOptions are runtime options in a google.protobuf.Any: all that a
// containerd up to 2.2 writes to the stdin of `start`.
func anyOptions(configPath string) []byte {
	options := append(protoText(1, "io.containerd.runsc.v1.options"), protoText(2, configPath)...)
	return append(protoText(1, "runtimeoptions.v1.Options"), protoText(2, string(options))...)
}

// bootstrapParams is what one from 2.3 on writes, github.com/containerd/containerd
// api/runtime/bootstrap/v1/bootstrap.proto.
func bootstrapParams(id, configPath string) []byte {
	params := append(protoText(1, id), protoText(2, "k8s.io")...)
	return append(params, protoText(8, string(protoText(1, string(anyOptions(configPath)))))...)
}

// answered is what `start` printed on its two outputs together, as containerd
// reads it, and whether it succeeded.
type answered struct {
	output string
	err    error
}

// startShim runs the `start` command in a bundle of a plain container.
func startShim(t *testing.T, id string, stdin io.Reader) answered {
	t.Helper()
	ours, tools, err := binaries.Dirs()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), id)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(`{"ociVersion": "1.2.0"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(testutil.Context(t), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(ours, binaries.Shim),
		"-namespace", "k8s.io", "-address", node.Dir+"/containerd.sock", "-publish-binary", "/bin/false", "-id", id, "start")
	cmd.Dir, cmd.Stdin = dir, stdin
	cmd.Env = []string{"PATH=" + tools}
	// The pipe to a writer that goes on for ever must not hold the test up.
	cmd.WaitDelay = time.Second
	t.Cleanup(func() { endShim(t, id) })
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		t.Fatalf("start hangs; so far it has printed %q", out)
	}
	return answered{string(out), err}
}

// endShim ends a shim that no containerd knows, and takes its socket away.
func endShim(t *testing.T, id string) {
	t.Helper()
	found, err := node.Find(binaries.Shim, id)
	if err != nil {
		t.Fatal(err)
	}
	for _, process := range found {
		_ = process.Kill()
	}
	for _, name := range node.Entries(node.ShimSockets) {
		_ = os.Remove(filepath.Join(node.ShimSockets, name))
	}
}

func TestStartUnderstandsOldAndNewContainerds(t *testing.T) {
	testutil.Node(t)
	config := node.Dir + "/handlers/" + node.Sedna + ".toml"
	for _, c := range []struct {
		name  string
		stdin []byte
	}{
		{"no options", nil},
		{"options alone, as up to containerd 2.2", anyOptions(config)},
		{"options without a path", anyOptions("")},
		{"options of another runtime", append(protoText(1, "containerd.runc.v1.Options"), protoText(2, "\x08\x01")...)},
		{"parameters, as from containerd 2.3 on", bootstrapParams("box", config)},
		{"parameters with fields that nobody knows yet", append(bootstrapParams("box", config), protoText(99, "new")...)},
	} {
		t.Run(c.name, func(t *testing.T) {
			testutil.Node(t)
			got := startShim(t, "box", bytes.NewReader(c.stdin))
			// containerd 1.7 refuses a version above 2, "unsupported shim
			// version (3)"; every later one takes 2 (containerd/containerd#10984).
			var answer struct {
				Version           int
				Address, Protocol string
			}
			if err := json.Unmarshal([]byte(got.output), &answer); got.err != nil || err != nil {
				t.Fatalf("start printed %q, %v, %v", got.output, got.err, err)
			}
			if answer.Version != 2 || answer.Protocol != "ttrpc" || !strings.HasPrefix(answer.Address, "unix:///run/containerd/s/") {
				t.Errorf("start answers %s", got.output)
			}
			if _, err := os.Stat(strings.TrimPrefix(answer.Address, "unix://")); err != nil {
				t.Errorf("nobody listens at the address: %v", err)
			}
		})
	}
}

// endless never stops to write.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return copy(p, bytes.Repeat([]byte{0x0a}, len(p))), nil }

func TestStartRefusesWhatIsNoBootstrap(t *testing.T) {
	testutil.Node(t)
	for _, c := range []struct {
		name  string
		stdin io.Reader
		says  string
	}{
		{"no protobuf", strings.NewReader(`{"ConfigPath": "/etc/containerd/sedna/config.toml"}`), "runtime options"},
		{"cut short", bytes.NewReader(anyOptions("/etc/config.toml")[:20]), "runtime options"},
		{"noise", bytes.NewReader(bytes.Repeat([]byte{0xff}, 4096)), "runtime options"},
		{"more than anyone would say", endless{}, "larger than"},
		{"a path to nothing", bytes.NewReader(anyOptions("/nowhere/config.toml")), "/nowhere/config.toml"},
		{"a path to nothing, in the new form", bytes.NewReader(bootstrapParams("box", "/nowhere/config.toml")), "/nowhere/config.toml"},
		{"a path to a folder", bytes.NewReader(anyOptions("/proc")), "/proc"},
	} {
		t.Run(c.name, func(t *testing.T) {
			testutil.Node(t)
			got := startShim(t, "box", c.stdin)
			if got.err == nil {
				t.Fatalf("start succeeded: %s", got.output)
			}
			contains(t, got.output, c.says)
			if found, err := node.Find(binaries.Shim); err != nil || len(found) > 0 {
				t.Errorf("a shim runs all the same: %v, %v", found, err)
			}
			if left := node.Entries(node.ShimSockets); len(left) > 0 {
				t.Errorf("sockets are left: %v", left)
			}
		})
	}
}
