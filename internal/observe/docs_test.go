// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/sedna-io/containerd-shim-sedna/storage/worker"
)

func TestMetricsFieldsAndKindsAreDocumented(t *testing.T) {
	data, err := os.ReadFile("../../docs/observability.md")
	if err != nil {
		t.Fatal(err)
	}
	names := append(worker.Kinds(), "internal", Success, Failed, Canceled)
	for _, m := range metrics {
		names = append(names, m.name)
	}
	for _, typ := range []reflect.Type{reflect.TypeFor[Result](), reflect.TypeFor[Item](), reflect.TypeFor[worker.Failure](), reflect.TypeFor[worker.Pod]()} {
		for i := range typ.NumField() {
			name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
			names = append(names, name)
		}
	}
	for _, name := range names {
		if !strings.Contains(string(data), "`"+name) && !strings.Contains(string(data), "."+name+"`") {
			t.Errorf("%s isn't in docs/observability.md", name)
		}
	}
	for _, place := range []string{DefaultNode().Run, DefaultNode().State + "/" + resultsFile, podLogFolder + "/" + podLogFile} {
		if !strings.Contains(string(data), place) {
			t.Errorf("%s isn't in docs/observability.md", place)
		}
	}
}
