// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/sedna-io/containerd-shim-sedna/cmd/sedna-storage/manifest"
	"github.com/sedna-io/containerd-shim-sedna/internal/config"
	"github.com/sedna-io/containerd-shim-sedna/storage/plan"
)

// Node is the node that a preview is for.
type Node struct {
	Config *config.Config
	// Known says that Config is that of a real node: host paths are checked.
	Known bool
	// Namespace is that of pods which name none.
	Namespace string
}

// Preview is what one pod would get. Its URLs are redacted.
type Preview struct {
	File       string      `json:"file"`
	Line       int         `json:"line"`
	Pod        string      `json:"pod"`
	Namespace  string      `json:"namespace"`
	Plan       *plan.Plan  `json:"plan,omitempty"`
	Containers []Container `json:"containers,omitempty"`
	Mistakes   []Finding   `json:"mistakes,omitempty"`
	Warnings   []Finding   `json:"warnings,omitempty"`
}

// Finding is something about a line.
type Finding struct {
	File    string `json:"file"`
	Line    int    `json:"line"`
	Key     string `json:"key,omitempty"`
	Problem string `json:"problem"`
	Hint    string `json:"hint,omitempty"`
}

// Container is what one container would get.
type Container struct {
	Name      string     `json:"name"`
	Kind      string     `json:"kind"`
	Mounts    []Mount    `json:"mounts,omitempty"`
	Variables []Variable `json:"variables,omitempty"`
}

// Mount is a mount of downloads or of a folder of the node.
type Mount struct {
	Source      string `json:"source"` // `volume "NAME"` or a path of the node
	Destination string `json:"destination"`
	ReadOnly    bool   `json:"readOnly"`
	// Own says that the container mounts it itself.
	Own bool `json:"own,omitempty"`
}

// Variable is one environment variable.
type Variable struct {
	Name  string `json:"name"`
	Value string `json:"value,omitempty"`
	// Own says that the container defines it itself, which counts.
	Own bool `json:"own,omitempty"`
}

// Of previews one pod.
func Of(pod manifest.Pod, node Node) Preview {
	v := Preview{File: pod.File, Line: pod.Line, Pod: title(pod), Namespace: pod.Namespace}
	if v.Namespace == "" {
		v.Namespace = node.Namespace
	}
	c := checker{pod: pod, node: node, preview: &v}
	p, err := plan.Parse(pod.Annotations.Values)
	c.mistakes(err)
	c.warnAround()
	c.warnGVisor()
	if err != nil || !p.Asks() {
		return v
	}
	v.Plan = p
	if node.Known {
		c.mistakes(p.CheckHostPaths(roots(node.Config), v.Namespace))
	}
	c.warnPod(p)
	for _, container := range pod.Containers {
		v.Containers = append(v.Containers, c.container(p, container))
	}
	return v
}

func title(pod manifest.Pod) string {
	name := strings.TrimSuffix(pod.Object, "/")
	if name == "" {
		name = "a pod without a kind"
	}
	if pod.Path != "" {
		name += " " + pod.Path
	}
	return name
}

func roots(c *config.Config) []plan.HostRoot {
	var out []plan.HostRoot
	for _, h := range c.HostPaths {
		out = append(out, plan.HostRoot{Path: h.Path, Writable: h.Writable, Namespaces: h.Namespaces})
	}
	return out
}

// checker gathers what is wrong with one pod.
type checker struct {
	pod     manifest.Pod
	node    Node
	preview *Preview
}

// mistakes takes over the mistakes of an error, each with its line.
func (c *checker) mistakes(err error) {
	var all *plan.Error
	if !errors.As(err, &all) {
		return
	}
	for _, m := range all.Mistakes {
		c.preview.Mistakes = append(c.preview.Mistakes, Finding{
			File: c.pod.File, Line: c.lineOf(m.Key), Key: m.Key, Problem: m.Problem, Hint: m.Hint,
		})
	}
	slices.SortStableFunc(c.preview.Mistakes, func(a, b Finding) int { return a.Line - b.Line })
}

func (c *checker) mistake(line int, key, problem, hint string) {
	c.preview.Mistakes = append(c.preview.Mistakes, Finding{File: c.pod.File, Line: line, Key: key, Problem: problem, Hint: hint})
}

func (c *checker) warn(line int, key, problem, hint string) {
	c.preview.Warnings = append(c.preview.Warnings, Finding{File: c.pod.File, Line: line, Key: key, Problem: problem, Hint: hint})
}

// lineOf is the line of an annotation; of one that is missing, that of the
// first annotation of the same mount.
func (c *checker) lineOf(key string) int {
	lines := c.pod.Annotations.Lines
	if line, ok := lines[key]; ok {
		return line
	}
	mount, _, dotted := strings.Cut(strings.TrimPrefix(key, plan.Prefix), ".")
	for _, other := range slices.Sorted(maps.Keys(lines)) {
		if dotted && strings.HasPrefix(other, plan.Prefix+mount+".") {
			return lines[other]
		}
	}
	return c.pod.Annotations.Line
}
