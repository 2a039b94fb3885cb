// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"
)

// The walk is bounded, for aliases can make a small file huge or endless.
const (
	maxNodes = 200_000
	maxDepth = 64
)

// Read finds the pods of a YAML or JSON text of any number of documents. The
// name of the file is for what it reports.
func Read(file string, data []byte) ([]Pod, []Problem, error) {
	r := &reader{file: file}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var document yaml.Node
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, nil, fmt.Errorf("read %s: %w", file, err)
		}
		for _, root := range document.Content {
			r.object(resolve(root))
		}
	}
	if r.nodes > maxNodes {
		return nil, nil, fmt.Errorf("read %s: more than %d values", file, maxNodes)
	}
	return r.pods, r.problems, nil
}

// reader walks documents and gathers pods.
type reader struct {
	file     string
	nodes    int
	pods     []Pod
	problems []Problem
}

// frame is what a pod inherits from the objects around it.
type frame struct {
	object    string
	namespace string
	path      string
	depth     int
	around    Annotations
}

// object reads a whole object, or a list of them.
func (r *reader) object(n *yaml.Node) {
	if list := child(n, "items"); list != nil && list.Kind == yaml.SequenceNode {
		for _, item := range items(list) {
			if r.nodes++; r.nodes < maxNodes {
				r.object(item)
			}
		}
		return
	}
	kind := text(child(n, "kind"))
	metadata := child(n, "metadata")
	name := text(child(metadata, "name"))
	if name == "" {
		name = text(child(metadata, "generateName"))
	}
	r.walk(n, frame{object: kind + "/" + name, namespace: text(child(metadata, "namespace"))})
}

// walk looks for pods in a node and everything below.
func (r *reader) walk(n *yaml.Node, f frame) {
	if r.nodes++; r.nodes > maxNodes || n == nil || f.depth > maxDepth {
		return
	}
	f.depth++
	switch n.Kind {
	case yaml.MappingNode:
		if isPod(n) {
			r.pods = append(r.pods, r.pod(n, f))
			return
		}
		f.around = merge(f.around, r.annotations(child(n, "metadata")))
		pairs(n, func(key, value *yaml.Node) {
			inner := f
			inner.path = join(f.path, key.Value)
			r.walk(value, inner)
		})
	case yaml.SequenceNode:
		for i, item := range items(n) {
			inner := f
			inner.path = fmt.Sprintf("%s[%d]", f.path, i)
			r.walk(item, inner)
		}
	}
}

func isPod(n *yaml.Node) bool {
	if text(child(n, "kind")) == "Pod" {
		return true
	}
	containers := child(child(n, "spec"), "containers")
	return containers != nil && containers.Kind == yaml.SequenceNode
}

func (r *reader) pod(n *yaml.Node, f frame) Pod {
	metadata, spec := child(n, "metadata"), child(n, "spec")
	p := Pod{
		File: r.file, Line: n.Line, Object: f.object, Path: f.path, Namespace: f.namespace,
		Annotations: r.annotations(metadata), Around: f.around,
		RuntimeClass: text(child(spec, "runtimeClassName")),
	}
	if p.Annotations.Line == 0 {
		p.Annotations.Line = n.Line
	}
	for _, v := range items(child(spec, "volumes")) {
		p.Volumes = append(p.Volumes, volume(v))
	}
	for _, group := range []struct{ key, kind string }{
		{"initContainers", "init container"},
		{"containers", "container"},
		{"ephemeralContainers", "ephemeral container"},
	} {
		for _, c := range items(child(spec, group.key)) {
			p.Containers = append(p.Containers, container(c, group.kind))
		}
	}
	return p
}

// annotations reads an object's annotations and reports what Kubernetes would
// refuse: values that aren't texts and keys that come twice.
func (r *reader) annotations(metadata *yaml.Node) Annotations {
	n := child(metadata, "annotations")
	a := Annotations{Line: line(metadata), Values: map[string]string{}, Lines: map[string]int{}}
	pairs(n, func(key, value *yaml.Node) {
		first, twice := a.Lines[key.Value]
		switch {
		case twice:
			r.problem(key, "the key stands on line %d already", first)
			return
		case value.Kind != yaml.ScalarNode:
			r.problem(key, "the value is no text")
		case value.Tag != "!!str":
			r.problem(key, "the value %q is no text; write it in quotes", value.Value)
		}
		a.Values[key.Value] = value.Value
		a.Lines[key.Value] = key.Line
	})
	if n != nil {
		a.Line = n.Line
	}
	return a
}

func (r *reader) problem(key *yaml.Node, format string, args ...any) {
	r.problems = append(r.problems, Problem{File: r.file, Line: key.Line, Key: key.Value, Text: fmt.Sprintf(format, args...)})
}

func merge(a, b Annotations) Annotations {
	if len(a.Values) == 0 {
		return b
	}
	out := Annotations{Line: a.Line, Values: map[string]string{}, Lines: map[string]int{}}
	for _, from := range []Annotations{a, b} {
		for key, value := range from.Values {
			out.Values[key] = value
			out.Lines[key] = from.Lines[key]
		}
	}
	return out
}

func volume(n *yaml.Node) Volume {
	v := Volume{Name: text(child(n, "name")), Line: line(n), Kind: "emptyDir"} // Kubernetes' default
	pairs(n, func(key, _ *yaml.Node) {
		if key.Value != "name" {
			v.Kind = key.Value
		}
	})
	if name := text(child(child(n, "secret"), "secretName")); name != "" {
		v.Secrets = append(v.Secrets, name)
	}
	for _, source := range items(child(child(n, "projected"), "sources")) {
		if name := text(child(child(source, "secret"), "name")); name != "" {
			v.Secrets = append(v.Secrets, name)
		}
	}
	return v
}

func container(n *yaml.Node, kind string) Container {
	c := Container{Name: text(child(n, "name")), Kind: kind, Line: line(n), Env: map[string]bool{}}
	for _, m := range items(child(n, "volumeMounts")) {
		mount := Mount{
			Volume: text(child(m, "name")), Path: text(child(m, "mountPath")),
			SubPath: text(child(m, "subPath")), Line: line(m),
		}
		if expr := text(child(m, "subPathExpr")); expr != "" {
			mount.SubPath, mount.Expr = expr, true
		}
		c.Mounts = append(c.Mounts, mount)
	}
	for _, e := range items(child(n, "env")) {
		c.Env[text(child(e, "name"))] = true
	}
	return c
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
