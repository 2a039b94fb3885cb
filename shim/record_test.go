// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sedna-io/containerd-shim-sedna/internal/config"
	"github.com/sedna-io/containerd-shim-sedna/shim/bundle"
	"github.com/sedna-io/containerd-shim-sedna/storage/plan"
)

const canary = "s3cr3t-canary"

func exampleRecord(t *testing.T) *record {
	t.Helper()
	r := newRecord(t.TempDir(), bundle.Pod{Namespace: "ns", Name: "pod", UID: "uid"}, map[string]string{
		"storage.sedna.io/model.url":       "https://host/m?token=" + canary,
		"storage.sedna.io/model.env":       "MODEL",
		"io.kubernetes.cri.container-type": "sandbox",
	}, config.Default())
	r.Inject = &injection{
		Volume: "/volume", MountPath: "/downloads",
		Variables: recordVariables([]plan.Variable{{Name: "MODEL", Mount: "model", Values: []plan.Value{
			{Download: "host/m"}, {Literal: plan.NewSecret("/hostpath/x")},
		}}}),
	}
	return r
}

func TestARecordSurvivesItsFile(t *testing.T) {
	want := exampleRecord(t)
	if err := want.save(want.bundle); err != nil {
		t.Fatal(err)
	}
	got, err := loadRecord(want.bundle)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(record{}), cmpopts.IgnoreFields(record{}, "bundle")); diff != "" {
		t.Errorf("the record changed (-saved +loaded):\n%s", diff)
	}
	if value := got.Inject.volumes().Variables[0].Value("/mine"); value != "/mine/host/m;/hostpath/x" {
		t.Errorf("the variable became %q", value)
	}
}

func TestARecordHoldsNoSecretAndIsForRootOnly(t *testing.T) {
	r := exampleRecord(t)
	if err := r.save(r.bundle); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(r.bundle, recordFile)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), canary) {
		t.Errorf("a secret is in %s", text)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v; want 0600", info.Mode(), err)
	}
}

func TestARecordSeesWhichAnnotationsChanged(t *testing.T) {
	r := exampleRecord(t)
	got := r.changed(map[string]string{
		"storage.sedna.io/model.url": "https://host/other",
		"storage.sedna.io/model.env": "MODEL",
		"storage.sedna.io/writable":  "true",
		"example.com/other":          "not ours",
	})
	if want := []string{"storage.sedna.io/model.url", "storage.sedna.io/writable"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := r.changed(nil); len(got) != 2 {
		t.Errorf("removed annotations: got %v, want both", got)
	}
}

// With `grouping = false` each container's shim looks for what the sandbox's
// has left in its bundle.
func TestTheRecordOfTheSandboxIsFoundFromAContainersBundle(t *testing.T) {
	for name, bundleOf := range map[string]func(root, id string) string{
		"containerd": func(root, id string) string { return filepath.Join(root, "k8s.io", id) },
		"CRI-O":      func(root, id string) string { return filepath.Join(root, "overlay-containers", id, "userdata") },
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			sandbox := bundleOf(root, "box")
			if err := os.MkdirAll(sandbox, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := exampleRecord(t).save(sandbox); err != nil {
				t.Fatal(err)
			}
			s, _ := newTestService()
			if got, err := s.recordOf("box", "app", bundleOf(root, "app")); err != nil || got.UID != "uid" {
				t.Errorf("got %+v, %v", got, err)
			}
			for _, id := range []string{"../box", "..", ".", "other"} {
				if got, err := s.recordOf(id, "app", bundleOf(root, "app")); err == nil {
					t.Errorf("sandbox %q: got %+v and no error", id, got)
				}
			}
		})
	}
}

func TestARecordOfAnotherVersionIsRefused(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"newer": `{"version": 99}`, "no JSON": `{`} {
		if err := os.WriteFile(filepath.Join(dir, recordFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := loadRecord(dir); err == nil || !strings.Contains(err.Error(), recordFile) {
			t.Errorf("%s: got %v, want an error that names %s", name, err, recordFile)
		}
	}
}
