// SPDX-License-Identifier: Apache-2.0

package plan

// Plan is what one pod asked for, checked. It is immutable once Parse has
// returned it. Its JSON, its String and every error made from it show URLs
// redacted: presigned queries, fragments and userinfo never leave it that way.
type Plan struct {
	// Volume names the emptyDir that receives downloads.
	Volume string `json:"volume"`
	// MountPath is where that volume appears in a container that does not
	// mount it itself.
	MountPath string `json:"mountPath"`
	// Writable says that containers may write the download volume.
	Writable bool `json:"writable,omitempty"`
	// Containers names the containers that get mounts and variables; nil
	// means all of them. The node's skip_containers are not in here.
	Containers []string `json:"containers,omitempty"`
	// MaxBytes is the pod's own limit on downloaded bytes; 0 means none.
	MaxBytes int64 `json:"maxBytes,omitempty"`
	// Downloads are fetched before the pod starts, in the order of their Path.
	Downloads []Download `json:"downloads,omitempty"`
	// HostPaths are bind mounts of node folders, in the order of their
	// Destination.
	HostPaths []HostPath `json:"hostPaths,omitempty"`
	// Variables are set in each container, in the order of their Name.
	Variables []Variable `json:"variables,omitempty"`
}

// Download is one URL to fetch. The same URL named by several mounts with the
// same options is one Download.
type Download struct {
	// Mounts names the mounts that asked for it, sorted, never empty.
	Mounts []string `json:"mounts"`
	// URL is where the bytes come from. It may hold secrets, see URL.
	URL URL `json:"url"`
	// Path is where the file or the tree lands: slash-separated, relative to
	// the root of the download volume, clean, without "..". For an archive to
	// be unpacked it is the directory it is unpacked into.
	Path string `json:"path"`
	// Dir says that the URL names a directory (a prefix) and never a file.
	Dir bool `json:"dir,omitempty"`
	// Archive is the format to unpack, "" for none.
	Archive Archive `json:"archive,omitempty"`
	// Indirect says that the URL names an index file whose lines are fetched.
	Indirect bool `json:"indirect,omitempty"`
	// Digest is "sha256:" and 64 hex digits in lower case, or "".
	Digest string `json:"digest,omitempty"`
	// Include and Exclude are patterns over the path relative to the URL.
	Include []string `json:"include,omitempty"`
	Exclude []string `json:"exclude,omitempty"`
	// Secret names the pod's volume that holds the credentials, "" for none.
	Secret string `json:"secret,omitempty"`
	// S3 says how to reach the S3 service; the zero value for other schemes.
	S3 S3 `json:"s3,omitzero"`
	// Offline allows a cached copy where the source can't be reached.
	Offline bool `json:"offline,omitempty"`
}

// S3 says how to reach an S3 service. Empty fields were not set by the pod:
// the secret's values, then the node's, then the defaults apply.
type S3 struct {
	// Endpoint is a host or host:port, "" when the pod doesn't say. An
	// endpoint that the pod wrote with a scheme has it in Insecure.
	Endpoint string `json:"endpoint,omitempty"`
	// Insecure is true for plain http, nil when the pod doesn't say.
	Insecure *bool `json:"insecure,omitempty"`
	// Region is "" when the pod doesn't say.
	Region string `json:"region,omitempty"`
	// Addressing is "auto", "path" or "virtual"; "" is auto.
	Addressing string `json:"addressing,omitempty"`
}

// HostPath is a folder of the node that is bind mounted into containers.
type HostPath struct {
	// Mounts names the mounts that asked for it, sorted, never empty.
	Mounts []string `json:"mounts"`
	// Source is the absolute, clean path on the node.
	Source string `json:"source"`
	// Destination is the absolute, clean path in the container, below /hostpath.
	Destination string `json:"destination"`
	// Writable is true when some mount of it is writeonly. The node's
	// [[host_path]] must allow it too.
	Writable bool `json:"writable,omitempty"`
	// Files are the names in Source that mounts want to read, sorted: a pod
	// doesn't start without them.
	Files []string `json:"files,omitempty"`
	// Volume is the name that Sedna gives such a volume, made unique.
	Volume string `json:"volume"`
}

// Variable is an environment variable set in every container.
type Variable struct {
	Name   string  `json:"name"`
	Mount  string  `json:"mount"`
	Values []Value `json:"values"`
}

// Asks says whether the pod asked for anything at all.
func (p *Plan) Asks() bool {
	return p != nil && (len(p.Downloads) > 0 || len(p.HostPaths) > 0 || len(p.Variables) > 0)
}
