// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sedna-io/containerd-shim-sedna/cmd/sedna-storage/manifest"
	"github.com/sedna-io/containerd-shim-sedna/storage/plan"
)

// warnAround finds annotations that stand on a Deployment instead of its
// template, where they reach no pod.
func (c *checker) warnAround() {
	for _, key := range slices.Sorted(maps.Keys(c.pod.Around.Values)) {
		if !strings.HasPrefix(key, plan.Prefix) {
			continue
		}
		hint := "move it to the annotations of the pod template"
		if c.pod.Path != "" {
			hint = "move it to " + c.pod.Path + ".metadata.annotations"
		}
		if _, there := c.pod.Annotations.Values[key]; there {
			continue
		}
		c.warn(c.pod.Around.Lines[key], key, "it stands on the "+kindOf(c.pod)+", not on its pods, and has no effect", hint)
	}
}

func kindOf(pod manifest.Pod) string {
	kind, _, _ := strings.Cut(pod.Object, "/")
	if kind == "" {
		return "object"
	}
	return kind
}

// warnGVisor finds annotations that the node takes away from the pod.
func (c *checker) warnGVisor() {
	for _, key := range slices.Sorted(maps.Keys(c.pod.Annotations.Values)) {
		if strings.HasPrefix(key, "dev.gvisor.") && !c.node.Config.Shim.AllowsAnnotation(key) {
			c.warn(c.pod.Annotations.Lines[key], key, "the node removes it", "its operator can allow it by [shim] gvisor_annotations")
		}
	}
}

// warnPod finds what the node will miss when it starts the pod.
func (c *checker) warnPod(p *plan.Plan) {
	if c.pod.RuntimeClass == "" {
		c.warn(c.pod.Line, "runtimeClassName", "it isn't set: unless the shim is the node's default runtime, nothing is downloaded", "")
	}
	if len(p.Downloads) > 0 {
		c.warnVolume(plan.Prefix+"volume", p.Volume, "downloads go to", "emptyDir")
	}
	c.warnHostPaths(p)
	secrets := map[string]string{}
	for _, d := range p.Downloads {
		if d.Secret != "" && secrets[d.Secret] == "" {
			secrets[d.Secret] = c.secretKey(d)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(secrets)) {
		c.warnVolume(secrets[name], name, "credentials come from", "secret", "projected")
	}
	for _, name := range p.Containers {
		if !slices.ContainsFunc(c.pod.Containers, func(k manifest.Container) bool { return k.Name == name }) {
			c.warn(c.lineOf(plan.Prefix+"containers"), plan.Prefix+"containers", fmt.Sprintf("the pod has no container %q", name), "")
		}
	}
}

// warnHostPaths says what can't be known without a node: no node allows a host
// path unless its operator has said so.
func (c *checker) warnHostPaths(p *plan.Plan) {
	if c.node.Known {
		return
	}
	for _, h := range p.HostPaths {
		key := plan.Prefix + h.Mounts[0] + ".url"
		c.warn(c.lineOf(key), key, fmt.Sprintf("a node has to allow its folder %s to the namespace %q, which isn't checked here", h.Source, c.preview.Namespace),
			"check against a node's config.toml by --config")
	}
}

// secretKey is the annotation by which a download names its secret.
func (c *checker) secretKey(d plan.Download) string {
	for _, mount := range d.Mounts {
		key := plan.Prefix + mount + ".secret"
		if _, own := c.pod.Annotations.Values[key]; own {
			return key
		}
	}
	return plan.Prefix + "secret"
}

// warnVolume finds a volume that won't be on the node: undeclared, of another
// kind, or mounted by no container, for then the kubelet doesn't make it.
func (c *checker) warnVolume(key, name, use string, kinds ...string) {
	line := c.lineOf(key)
	i := slices.IndexFunc(c.pod.Volumes, func(v manifest.Volume) bool { return v.Name == name })
	if i < 0 {
		c.warn(line, key, fmt.Sprintf("%s the volume %q, which the pod doesn't declare: it won't start", use, name), c.declare(name, kinds))
		return
	}
	v := c.pod.Volumes[i]
	if !slices.Contains(kinds, v.Kind) {
		c.warn(v.Line, key, fmt.Sprintf("%s the volume %q, which is of the kind %s", use, name, v.Kind),
			fmt.Sprintf("it has to be %s", strings.Join(kinds, " or ")))
	}
	for _, k := range c.pod.Containers {
		if slices.ContainsFunc(k.Mounts, func(m manifest.Mount) bool { return m.Volume == name }) {
			return
		}
	}
	c.warn(v.Line, key, fmt.Sprintf("%s the volume %q, which no container mounts, so that the kubelet doesn't make it: the pod won't start", use, name),
		"add it to the volumeMounts of a container")
}

// declare says how to get a volume that the pod doesn't declare: maybe it has
// the right one by another name, or the name is that of a Secret.
func (c *checker) declare(name string, kinds []string) string {
	hint := fmt.Sprintf("add it to volumes as %s, and to the volumeMounts of a container", strings.Join(kinds, " or "))
	var others []string
	for _, v := range c.pod.Volumes {
		if slices.Contains(v.Secrets, name) {
			return fmt.Sprintf("write %q: that is the volume with the Secret of this name", v.Name)
		}
		if slices.Contains(kinds, v.Kind) {
			others = append(others, v.Name)
		}
	}
	if len(others) == 1 {
		hint += fmt.Sprintf("; or set this to %q, which it has", others[0])
	}
	return hint
}
