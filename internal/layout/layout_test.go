// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/sedna-io/containerd-shim-sedna"

// ours is what each package may import of this module, and why no more. A
// trailing "/..." names a package and those below it.
var ours = map[string]struct {
	may []string
	why string
}{
	"storage/plan":    {nil, "a plan is made from text alone, anywhere"},
	"internal/config": {nil, "the shim, the worker and the command read one file, and nothing of it depends on what they do"},
	"volumes":         {[]string{"storage/plan"}, "words of a spec need the plan's, and no bytes"},
	"shim/bundle":     {nil, "facts of the bundle come before any wish of the user"},
	"storage/worker":  {[]string{"storage/plan"}, "the shim links it, and must not link S3 clients: one shim runs for every pod"},
	"internal/observe": {
		[]string{"storage/worker"}, "the shim links it for every pod; records and results have the worker's own words",
	},
	"storage/source": {[]string{"storage/plan", "storage/worker"}, "a source knows nothing of cache and place"},
	"storage/source/...": {
		[]string{"storage/plan", "storage/worker", "storage/source", "storage/source/..."}, "a source knows nothing of cache and place",
	},
	"storage/archive": {
		[]string{"storage/plan", "storage/place", "storage/source"},
		"an archive comes as a source's stream and goes where place lets it, whoever drives it",
	},
	"storage/cache": {[]string{"storage/plan"}, "a cache knows keys, not where bytes come from"},
	"storage/place": {nil, "placing a tree must hold for any tree"},
	"storage": {
		[]string{"storage/plan", "storage/worker", "storage/source", "storage/source/...", "storage/cache", "storage/place", "storage/archive"},
		"the worker's format is the report's, so that no field is copied by hand",
	},
	"shim": {
		[]string{"shim/bundle", "storage/plan", "storage/worker", "volumes", "internal/config", "internal/observe", "internal/version"},
		"never storage itself: its memory is multiplied by the pods of a node",
	},
	"cmd/containerd-shim-sedna-v1": {[]string{"shim"}, "a main says only a name"},
}

// foreign is what only the named packages may import, and why.
var foreign = map[string]struct {
	only []string
	why  string
}{
	"gvisor.dev/gvisor/": {
		[]string{"shim", "cmd/containerd-shim-sedna-v1"}, "one place wraps gVisor's shim",
	},
	"github.com/containerd/containerd/v2/pkg/shim": {
		[]string{"shim", "cmd/containerd-shim-sedna-v1"}, "one place speaks containerd's shim protocol",
	},
	"github.com/minio/minio-go/v7": {
		[]string{"storage/source/s3", "cmd/sedna-storage"}, "S3 stays out of the shim",
	},
}

type listed struct {
	ImportPath string
	Dir        string
	Doc        string
	Imports    []string
	GoFiles    []string
}

// packages lists the module's packages as they are built, tests left out.
func packages(t *testing.T) []listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,Doc,Imports,GoFiles", module+"/...")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []listed
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

func TestPackagesImportOnlyWhatTheLayoutAllows(t *testing.T) {
	for _, p := range packages(t) {
		name := strings.TrimPrefix(p.ImportPath, module+"/")
		if strings.HasPrefix(name, "test/") {
			continue
		}
		checkOurs(t, name, p.Imports)
		checkForeign(t, name, p.Imports)
	}
}

func checkOurs(t *testing.T, name string, imports []string) {
	rule, ok := ours[name]
	if parent := filepath.Dir(name) + "/..."; !ok {
		if rule, ok = ours[parent]; !ok {
			return
		}
	}
	for _, i := range imports {
		rel, mine := strings.CutPrefix(i, module+"/")
		if mine && rel != "internal/version" && !matches(rule.may, rel) {
			t.Errorf("%s imports %s: %s", name, rel, rule.why)
		}
	}
}

func checkForeign(t *testing.T, name string, imports []string) {
	for path, rule := range foreign {
		for _, i := range imports {
			if strings.HasPrefix(i+"/", strings.TrimSuffix(path, "/")+"/") && !slices.Contains(rule.only, name) {
				t.Errorf("%s imports %s: %s", name, i, rule.why)
			}
		}
	}
}

func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		below, tree := strings.CutSuffix(p, "/...")
		return p == name || tree && strings.HasPrefix(name, below+"/")
	})
}

// What one shim costs is paid for every pod: these must never be linked into it.
func TestTheShimLinksNoDownloader(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", module+"/cmd/containerd-shim-sedna-v1").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	for _, unwanted := range []string{
		module + "/storage", module + "/storage/source/s3", module + "/storage/source/web",
		"github.com/minio/minio-go/v7", "github.com/spf13/cobra", "k8s.io/api/core/v1",
		"github.com/prometheus/client_golang/prometheus",
	} {
		if slices.Contains(strings.Fields(string(out)), unwanted) {
			t.Errorf("the shim links %s", unwanted)
		}
	}
}

func TestPackagesOpenWithASentence(t *testing.T) {
	for _, p := range packages(t) {
		if len(p.GoFiles) == 0 {
			continue
		}
		if p.Doc == "" || !strings.HasSuffix(strings.TrimSpace(p.Doc), ".") {
			t.Errorf("%s: its documentation is missing or no sentence: %q", p.ImportPath, p.Doc)
		}
	}
}

func TestSourcesNameTheirLicence(t *testing.T) {
	for _, p := range packages(t) {
		files, err := filepath.Glob(filepath.Join(p.Dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(string(text), "// SPDX-License-Identifier: Apache-2.0\n") {
				t.Errorf("%s doesn't begin with its licence", file)
			}
		}
	}
}
