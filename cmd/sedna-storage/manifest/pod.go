// SPDX-License-Identifier: Apache-2.0

package manifest

// Pod is a pod, or the template of one, as somebody wrote it.
type Pod struct {
	File string
	Line int
	// Object names what was written, like "Deployment/yolo".
	Object string
	// Path leads from the object to the pod, like "spec.template"; "" for a
	// Pod itself.
	Path      string
	Namespace string

	Annotations Annotations
	// Around are the annotations of the objects around a template: they don't
	// reach the pod.
	Around       Annotations
	RuntimeClass string
	Volumes      []Volume
	Containers   []Container
}

// Annotations are keys with their values and lines.
type Annotations struct {
	Line   int // of the first one, or of the pod's metadata
	Values map[string]string
	Lines  map[string]int
}

// Volume is one of the pod's volumes.
type Volume struct {
	Name string
	Kind string // its source's key: "emptyDir", "secret", "projected", ...
	Line int
	// Secrets are the names of the Secrets in it.
	Secrets []string
}

// Container is a container of any kind.
type Container struct {
	Name   string
	Kind   string // "container", "init container" or "ephemeral container"
	Line   int
	Mounts []Mount
	Env    map[string]bool // names that it defines itself
}

// Mount is one of a container's mounts.
type Mount struct {
	Volume  string
	Path    string
	SubPath string
	// Expr says that the subPath is made from variables of the container.
	Expr bool
	Line int
}

// Problem is something about a line that no pod can be made of.
type Problem struct {
	File string
	Line int
	Key  string
	Text string
}
