// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"reflect"
	"testing"
)

func TestAPodIsReadWithItsLines(t *testing.T) {
	pods, problems, err := Read("f", []byte(`kind: Pod
metadata:
  name: p
  namespace: n
  annotations:
    a: "1"
    b: >-
      two
      lines
spec:
  runtimeClassName: sedna
  initContainers: [{name: i}]
  containers:
    - name: c
      env: [{name: X}]
      volumeMounts:
        - {name: v, mountPath: /v, subPath: s}
  volumes:
    - name: v
      projected: {sources: []}
    - name: w
`))
	if err != nil || problems != nil || len(pods) != 1 {
		t.Fatalf("%+v, %+v, %v", pods, problems, err)
	}
	want := Pod{
		File: "f", Line: 1, Object: "Pod/p", Namespace: "n", RuntimeClass: "sedna",
		Annotations: Annotations{Line: 6, Values: map[string]string{"a": "1", "b": "two lines"}, Lines: map[string]int{"a": 6, "b": 7}},
		Volumes:     []Volume{{Name: "v", Kind: "projected", Line: 19}, {Name: "w", Kind: "emptyDir", Line: 21}},
		Containers: []Container{
			{Name: "i", Kind: "init container", Line: 12, Env: map[string]bool{}},
			{Name: "c", Kind: "container", Line: 14, Env: map[string]bool{"X": true}, Mounts: []Mount{{Volume: "v", Path: "/v", SubPath: "s", Line: 17}}},
		},
	}
	if !reflect.DeepEqual(pods[0], want) {
		t.Errorf("got  %+v\nwant %+v", pods[0], want)
	}
}

func TestAnnotationsThatKubernetesWouldRefuseAreProblems(t *testing.T) {
	for text, line := range map[string]int{
		"{kind: Pod, metadata: {annotations: {a: 1}}}":                            1,
		"kind: Pod\nmetadata:\n  annotations:\n    a: true":                       4,
		"kind: Pod\nmetadata:\n  annotations:\n    a: x\n    a: y":                5,
		"kind: Pod\nmetadata:\n  annotations:\n    a: [x]":                        4,
		"kind: X\nmetadata:\n  annotations:\n    a: null\nspec: {containers: []}": 4,
	} {
		_, problems, err := Read("f", []byte(text))
		if err != nil || len(problems) != 1 || problems[0].Line != line || problems[0].Key != "a" {
			t.Errorf("%q: %+v, %v", text, problems, err)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("kind: List\nitems:\n- &a {kind: Pod, metadata: {annotations: {<<: *a, x: y}}}\n---\n[1, {spec: {containers: [{env: 5}]}}]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		pods, _, err := Read("f", data)
		if err != nil {
			return
		}
		for _, p := range pods {
			for key := range p.Annotations.Values {
				if p.Annotations.Lines[key] == 0 {
					t.Fatalf("%q has no line", key)
				}
			}
		}
	})
}
