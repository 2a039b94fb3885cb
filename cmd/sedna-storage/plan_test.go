// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files anew")

// planDir is absolute, since a test may change into it twice.
var planDir, _ = filepath.Abs(filepath.Join("testdata", "plan"))

// runPlan runs the command as a person would, in testdata/plan, and returns
// what is printed, the error last.
func runPlan(t *testing.T, stdin string, args ...string) (string, error) {
	t.Helper()
	t.Chdir(planDir)
	root := newRoot()
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetIn(strings.NewReader(stdin))
	root.SetArgs(append([]string{"plan"}, args...))
	err := root.Execute()
	if err != nil {
		out.WriteString("error: " + err.Error() + "\n")
	}
	return out.String(), err
}

func TestPlansAreShownAsTheGoldenFilesSay(t *testing.T) {
	for _, c := range []struct {
		golden string
		args   []string
		fails  bool
	}{
		{"pod.txt", []string{"-f", "pod.yaml"}, false},
		{"pod.json", []string{"-f", "pod.yaml", "-o", "json"}, false},
		{"pod.out.yaml", []string{"-f", "pod.yaml", "-o", "yaml"}, false},
		{"workloads.txt", []string{"-f", "workloads.yaml"}, true},
		{"volumes.txt", []string{"-f", "volumes.yaml"}, false},
		{"mistakes.txt", []string{"-f", "mistakes.yaml"}, true},
		{"mounts.txt", []string{"-f", "mounts.yaml"}, true},
		{"mounts-node.txt", []string{"-f", "mounts.yaml", "--config", "node.toml"}, true},
		{"mounts-strict.txt", []string{"-f", "mounts.yaml", "--config", "strict-node.toml", "-n", "vision"}, true},
	} {
		t.Run(c.golden, func(t *testing.T) {
			got, err := runPlan(t, "", c.args...)
			if (err != nil) != c.fails {
				t.Errorf("the error is %v", err)
			}
			var usage usageError
			if errors.As(err, &usage) {
				t.Errorf("a mistake is no wrong usage: %v", err)
			}
			if strings.Contains(got, "CANARY") {
				t.Errorf("shows a secret:\n%s", got)
			}
			if *update {
				if err := os.WriteFile(c.golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(c.golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func TestStandardInputInJSONIsReadToo(t *testing.T) {
	pod := `{"kind":"Pod","metadata":{"name":"p","annotations":{"storage.sedna.io/m.url":"ftp://x/y"}},"spec":{"containers":[{"name":"a"}]}}`
	got, err := runPlan(t, pod, "-f", "-", "-o", "json")
	if err == nil || !strings.Contains(got, `"file": "-"`) {
		t.Errorf("got %s, %v", got, err)
	}
	out, _, _ := strings.Cut(got, "error: ")
	var parsed planOutput
	if err := json.Unmarshal([]byte(strings.ReplaceAll(out, `"plan"`, `"_"`)), &parsed); err != nil || len(parsed.Pods[0].Mistakes) != 1 {
		t.Errorf("the output is no JSON with a mistake: %v\n%s", err, out)
	}
}

func TestWrongUsageIsToldApart(t *testing.T) {
	for _, args := range [][]string{{}, {"pod.yaml"}, {"-f", "pod.yaml", "-o", "xml"}, {"-f", "pod.yaml", "--nope"}} {
		_, err := runPlan(t, "", args...)
		var usage usageError
		if !errors.As(err, &usage) {
			t.Errorf("%v: %v", args, err)
		}
	}
}

func TestWhatIsNoManifestIsAnError(t *testing.T) {
	for name, stdin := range map[string]string{
		"empty":       "",
		"no pod":      "kind: ConfigMap\ndata: {a: b}\n",
		"a template":  "kind: Pod\nmetadata:\n  {{- include x }}\n",
		"text":        "hello",
		"alias bombs": "a: &a [x,x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e,*e]\ng: [*f,*f,*f,*f,*f,*f,*f,*f,*f,*f]\n",
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := runPlan(t, stdin, "-f", "-"); err == nil {
				t.Errorf("accepted: %s", got)
			}
		})
	}
	if _, err := runPlan(t, "", "-f", "none.yaml"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	if _, err := runPlan(t, "", "-f", "pod.yaml", "--config", "none.toml"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing config: %v", err)
	}
}
