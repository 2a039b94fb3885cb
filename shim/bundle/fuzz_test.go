// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"
)

// FuzzConfig loads anything, edits what can be edited, saves it and looks
// whether everything else is as it was.
func FuzzConfig(f *testing.F) {
	f.Add([]byte(sample))
	f.Add([]byte(`{}`))
	f.Add([]byte(`{"annotations":null,"mounts":[null,{"destination":"/a"},{"destination":"/a","x":1}],"process":null}`))
	f.Add([]byte(`{"Annotations":{"a":"1"},"annotations":{"b":"2"}}`))
	f.Fuzz(func(t *testing.T, config []byte) {
		dir := t.TempDir()
		path := filepath.Join(dir, configName)
		if err := os.WriteFile(path, config, 0o600); err != nil {
			t.Fatal(err)
		}
		b, err := Load(dir)
		if err != nil {
			return
		}
		if changed, err := b.Save(); err != nil || changed {
			t.Fatalf("an unchanged spec: %t, %v", changed, err)
		}
		_, _ = b.Pod()
		if b.Spec.Annotations == nil {
			b.Spec.Annotations = map[string]string{}
		}
		b.Spec.Annotations["sedna.test/new"] = "1"
		b.Spec.Mounts = append(b.Spec.Mounts, specs.Mount{Destination: "/sedna-test"})
		if _, err := b.Save(); err != nil {
			return // a refusal: the file must be the old one
		}
		after, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		again := load(t, dir)
		got, _ := json.Marshal(again.Spec)
		want, _ := json.Marshal(b.Spec)
		if !bytes.Equal(got, want) {
			t.Fatalf("reads back as %s, want %s", got, want)
		}
		if !reflect.DeepEqual(others(t, config), others(t, after)) {
			t.Fatalf("%s became %s", config, after)
		}
	})
}

// others are the members that FuzzConfig doesn't edit.
func others(t *testing.T, config []byte) map[string]any {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(config))
	dec.UseNumber()
	var out map[string]any
	if err := dec.Decode(&out); err != nil {
		t.Fatal(err)
	}
	delete(out, "annotations")
	delete(out, "mounts")
	return out
}
