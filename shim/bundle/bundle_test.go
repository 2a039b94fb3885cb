// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/google/go-cmp/cmp"
	specs "github.com/opencontainers/runtime-spec/specs-go"
)

// sample has what a real spec has, and members that this build doesn't know.
const sample = `{
	"ociVersion": "1.2.0",
	"future": {"exact": 12345678901234567890, "ratio": 1.10},
	"process": {"user": {"uid": 0, "gid": 0}, "cwd": "/", "later": [1.0], "env": ["PATH=/bin", "A=<b>"],
		"rlimits": [{"type": "RLIMIT_NOFILE", "hard": 18446744073709551615, "soft": 1024}]},
	"mounts": [
		{"destination": "/proc", "type": "proc", "source": "proc", "options": ["nosuid"]},
		{"destination": "/data", "type": "bind", "source": "/v/data", "options": ["rbind", "rw"], "idmap": {"x": 1e2}},
		{"destination": "/tail", "type": "bind", "source": "/v/tail", "options": ["rbind"], "hint": null}
	],
	"annotations": {"z": "last", "a": "first"},
	"linux": {"resources": {"cpu": {"shares": 2, "burst2": 7}}}
}`

func write(t *testing.T, config string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, configName), []byte(config), 0o640); err != nil {
		t.Fatal(err)
	}
	return dir
}

func load(t *testing.T, dir string) *Bundle {
	t.Helper()
	b, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func read(t *testing.T, dir string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, configName))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func save(t *testing.T, b *Bundle, want bool) {
	t.Helper()
	changed, err := b.Save()
	if err != nil {
		t.Fatal(err)
	}
	if changed != want {
		t.Fatalf("Save changed = %t, want %t", changed, want)
	}
}

func TestAnUnchangedSpecIsNotWritten(t *testing.T) {
	dir := write(t, sample)
	before, err := os.Stat(filepath.Join(dir, configName))
	if err != nil {
		t.Fatal(err)
	}
	b := load(t, dir)
	b.Spec.Annotations = map[string]string{"a": "first", "z": "last"} // equal, another map
	save(t, b, false)
	after, err := os.Stat(filepath.Join(dir, configName))
	if err != nil {
		t.Fatal(err)
	}
	if !os.SameFile(before, after) || read(t, dir) != sample {
		t.Error("config.json was written although nothing changed")
	}
}

func TestOnlyWhatWasEditedChanges(t *testing.T) {
	dir := write(t, sample)
	b := load(t, dir)
	b.Spec.Annotations["a"] = "edited"
	b.Spec.Annotations["n"] = "new"
	b.Spec.Annotations["m"] = "new too"
	delete(b.Spec.Annotations, "z")
	b.Spec.Process.Env = append(b.Spec.Process.Env, "MODEL=/downloads/x")
	b.Spec.Mounts[1].Type = "tmpfs"
	b.Spec.Mounts[1].Options = []string{"ro"}
	b.Spec.Mounts = append(b.Spec.Mounts[1:], specs.Mount{Destination: "/downloads", Type: "bind", Source: "/s"})
	b.Spec.Hostname = "h"
	save(t, b, true)
	want := `{"ociVersion":"1.2.0","future":{"exact": 12345678901234567890, "ratio": 1.10},` +
		`"process":{"user":{"uid": 0, "gid": 0},"cwd":"/","later":[1.0],"env":["PATH=/bin","A=<b>","MODEL=/downloads/x"],` +
		`"rlimits":[{"type": "RLIMIT_NOFILE", "hard": 18446744073709551615, "soft": 1024}]},` +
		`"mounts":[{"destination":"/data","type":"tmpfs","source":"/v/data","options":["ro"],"idmap":{"x": 1e2}},` +
		`{"destination": "/tail", "type": "bind", "source": "/v/tail", "options": ["rbind"], "hint": null},` +
		`{"destination":"/downloads","type":"bind","source":"/s"}],` +
		`"annotations":{"a":"edited","m":"new too","n":"new"},` +
		`"linux":{"resources": {"cpu": {"shares": 2, "burst2": 7}}},"hostname":"h"}`
	if diff := cmp.Diff(want, read(t, dir)); diff != "" {
		t.Error(diff)
	}
	save(t, b, false)
	save(t, load(t, dir), false)
}

func TestAllEditsOfTheViewAreCarried(t *testing.T) {
	edits := map[string]func(*specs.Spec){
		"annotations where there were none": func(s *specs.Spec) { s.Annotations = nil },
		"a mount removed":                   func(s *specs.Spec) { s.Mounts = s.Mounts[:1] },
		"all mounts removed":                func(s *specs.Spec) { s.Mounts = nil },
		"a mount moved":                     func(s *specs.Spec) { s.Mounts[0], s.Mounts[2] = s.Mounts[2], s.Mounts[0] },
		"a mount twice":                     func(s *specs.Spec) { s.Mounts = append(s.Mounts, s.Mounts[1]) },
		"a deep number":                     func(s *specs.Spec) { *s.Linux.Resources.CPU.Shares = 3 },
		"a field set to zero":               func(s *specs.Spec) { s.Process.Cwd = "" },
		"a part removed":                    func(s *specs.Spec) { s.Linux = nil },
		"a part added":                      func(s *specs.Spec) { s.Root = &specs.Root{Path: "rootfs", Readonly: true} },
	}
	for name, edit := range edits {
		t.Run(name, func(t *testing.T) {
			dir := write(t, sample)
			b := load(t, dir)
			edit(b.Spec)
			save(t, b, true)
			again := load(t, dir)
			if diff := cmp.Diff(encode(t, b.Spec), encode(t, again.Spec)); diff != "" {
				t.Error(diff)
			}
			if !strings.Contains(read(t, dir), "12345678901234567890") {
				t.Error("the unknown field is gone")
			}
		})
	}
}

func encode(t *testing.T, spec *specs.Spec) string {
	t.Helper()
	data, err := json.MarshalIndent(spec, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestModeAndOwnerAreKept(t *testing.T) {
	dir := write(t, sample)
	path := filepath.Join(dir, configName)
	owner := os.Getuid()
	if owner == 0 {
		owner = 4711
	}
	if err := os.Chown(path, owner, -1); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o604); err != nil {
		t.Fatal(err)
	}
	b := load(t, dir)
	b.Spec.Hostname = "other"
	save(t, b, true)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode() != 0o604 || int(info.Sys().(*syscall.Stat_t).Uid) != owner {
		t.Errorf("mode %v, owner %d", info.Mode(), info.Sys().(*syscall.Stat_t).Uid)
	}
}

func TestSaveReplacesTheFileAndLeavesNothingBeside(t *testing.T) {
	dir := write(t, sample)
	if err := os.WriteFile(filepath.Join(dir, ".config.json.sedna"), []byte("from a crash"), 0o600); err != nil {
		t.Fatal(err)
	}
	held, err := os.Open(filepath.Join(dir, configName))
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	b := load(t, dir)
	b.Spec.Hostname = "other"
	save(t, b, true)
	old := make([]byte, len(sample))
	if _, err := held.ReadAt(old, 0); err != nil || string(old) != sample {
		t.Errorf("a reader of the old file doesn't see all of it: %v", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 1 {
		t.Errorf("the bundle holds %v", entries)
	}
}

func TestAFailedSaveLeavesTheOldFile(t *testing.T) {
	dir := write(t, `{"ociVersion":"1","Annotations":{"a":"1"}}`)
	b := load(t, dir)
	delete(b.Spec.Annotations, "a")
	if _, err := b.Save(); !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), "unusual case") {
		t.Errorf("error %v", err)
	}
	if got := read(t, dir); got != `{"ociVersion":"1","Annotations":{"a":"1"}}` {
		t.Errorf("the file became %s", got)
	}
}

func TestLoadRefuses(t *testing.T) {
	tests := map[string]struct{ config, want string }{
		"an empty file":                    {"", "unexpected EOF"},
		"garbage":                          {"hello", "not JSON"},
		"half a file":                      {sample[:len(sample)/2], "not JSON"},
		"null":                             {"null", "not a JSON object"},
		"an array":                         {"[]", "not a JSON object"},
		"two objects":                      {"{}{}", "something follows"},
		"a duplicate key":                  {`{"annotations":{},"hostname":"","annotations":{}}`, `duplicate key "annotations"`},
		"a duplicate annotation":           {`{"annotations":{"a":"1","a":"2"}}`, `duplicate key "a"`},
		"a duplicate key in another dress": {`{"annotations":{"a":"1","\u0061":"2"}}`, `duplicate key "a"`},
		"a duplicate key in a mount":       {`{"mounts":[{"type":"a","options":[{}],"type":"b"}]}`, `duplicate key "type"`},
		"a field of the wrong type":        {`{"mounts":{}}`, "mounts"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := Load(write(t, test.config))
			if !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}

func TestOneKeyInTwoObjectsIsNoDuplicate(t *testing.T) {
	load(t, write(t, `{"annotations":{"a":"a","b":"a"},"hooks":{"prestart":[{"path":"a"},{"path":"a"}]},"x":{"a":{"a":[]}}}`))
}

func TestLoadRefusesASymbolicLink(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink(filepath.Join(write(t, sample), configName), filepath.Join(dir, configName)); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(dir); !errdefs.IsInvalidArgument(err) {
		t.Errorf("error %v", err)
	}
}

func TestLoadRefusesAFIFOWithoutHanging(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, configName), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(dir); !errdefs.IsInvalidArgument(err) {
		t.Errorf("error %v", err)
	}
}

func TestLoadRefusesAHugeFile(t *testing.T) {
	dir := write(t, "")
	if err := os.Truncate(filepath.Join(dir, configName), maxConfig+1); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(dir); !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), "16 MiB") {
		t.Errorf("error %v", err)
	}
}

func TestAMissingBundleIsNotFound(t *testing.T) {
	if _, err := Load(t.TempDir()); !errdefs.IsNotFound(err) {
		t.Errorf("error %v", err)
	}
}

// testdata/config.json is what containerd 2.4 makes: `ctr oci spec`.
func TestContainerdsOwnSpecKeepsItsBytes(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("testdata", configName))
	if err != nil {
		t.Fatal(err)
	}
	dir := write(t, string(data))
	b := load(t, dir)
	b.Spec.Annotations = map[string]string{"a": "b"}
	b.Spec.Mounts = append(b.Spec.Mounts, specs.Mount{Destination: "/downloads", Type: "bind", Source: "/s"})
	save(t, b, true)
	after := read(t, dir)
	for _, part := range []string{`,"annotations":{"a":"b"}`, `,{"destination":"/downloads","type":"bind","source":"/s"}`} {
		if strings.Count(after, part) != 1 {
			t.Fatalf("%s isn't in %s", part, after)
		}
		after = strings.Replace(after, part, "", 1)
	}
	if diff := cmp.Diff(compact(t, data), compact(t, []byte(after))); diff != "" {
		t.Error(diff)
	}
}

func compact(t *testing.T, data []byte) string {
	t.Helper()
	var out bytes.Buffer
	if err := json.Compact(&out, data); err != nil {
		t.Fatal(err)
	}
	return out.String()
}
