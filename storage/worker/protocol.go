// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"time"

	"github.com/sedna-io/containerd-shim-sedna/storage/plan"
)

// Request is everything a worker needs to know.
type Request struct {
	// Version is the shim's build; a worker of another build refuses.
	Version string `json:"version"`
	Pod     Pod    `json:"pod"`
	// Dir is the folder of the emptyDir on the node: absolute.
	Dir string `json:"dir"`
	// Writable says that containers may write Dir: nothing found in it is
	// trusted without a digest.
	Writable bool `json:"writable,omitempty"`
	// Seal is the node's own mark of a volume that no container could write
	// since the mark was made: what an earlier run left in Dir is trusted only
	// if it bears the same. "" asks for none.
	Seal    string  `json:"seal,omitempty"`
	Items   []Item  `json:"items"`
	Limits  Limits  `json:"limits"`
	Network Network `json:"network"`
}

// Pod says whom the worker works for, for logs and errors.
type Pod struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	UID       string `json:"uid,omitempty"`
}

// Item is one download with the credentials for it. Its JSON holds secrets.
type Item struct {
	plan.Download
	Credentials plan.Credentials
}

// Limits bound one worker. Zero values mean no limit of that kind.
type Limits struct {
	MaxBytes int64 `json:"maxBytes,omitempty"` // of the whole request
	MaxFiles int64 `json:"maxFiles,omitempty"`
	// MinFreeBytes or MinFreePercent of the file system must stay free.
	MinFreeBytes   int64   `json:"minFreeBytes,omitempty"`
	MinFreePercent float64 `json:"minFreePercent,omitempty"`
	// MinFreeInodes or MinFreeInodesPercent must stay free.
	MinFreeInodes        int64         `json:"minFreeInodes,omitempty"`
	MinFreeInodesPercent float64       `json:"minFreeInodesPercent,omitempty"`
	Concurrency          int           `json:"concurrency,omitempty"`
	StallTimeout         time.Duration `json:"stallTimeout,omitempty"` // ns
	Bandwidth            int64         `json:"bandwidth,omitempty"`    // bytes per second
	// Metered says that Bandwidth is the node's: the worker may read only as many
	// bytes as it's granted, and asks for each grant.
	Metered bool `json:"metered,omitempty"`
	// Memory and CPU are what the worker's cgroup gives it. It can't look there
	// itself.
	Memory int64 `json:"memory,omitempty"` // bytes, without what a tmpfs volume takes
	CPU    int64 `json:"cpu,omitempty"`    // thousandths of a core
}

// Network says how the worker may dial.
type Network struct {
	// Host is true in the node's network namespace: loopback and link-local
	// addresses are then denied.
	Host bool `json:"host,omitempty"`
	// Deny and Allow are CIDRs; Allow wins.
	Deny  []string `json:"deny,omitempty"`
	Allow []string `json:"allow,omitempty"`
	Proxy string   `json:"proxy,omitempty"`
	// NoProxy are hosts that are reached without it: names, .domains, addresses,
	// CIDRs, each with a port or not.
	NoProxy []string `json:"noProxy,omitempty"`
	// CABundle is PEM of the node's ca_file.
	CABundle []byte `json:"caBundle,omitempty"`
	// Early is how long after the start a refusal, no route or an unknown name
	// counts as transient: the pod's address may not be announced yet.
	Early time.Duration `json:"early,omitempty"` // ns
}

// Event is one line from the worker. Exactly one of its fields is set.
type Event struct {
	Progress *Progress `json:"progress,omitempty"`
	Log      *Log      `json:"log,omitempty"`
	Report   *Report   `json:"report,omitempty"`
	Failure  *Failure  `json:"failure,omitempty"`
	Ask      *Ask      `json:"ask,omitempty"`
}

// Ask asks for the next Grant, one at a time.
type Ask struct{}

// Grant is a line from the shim: what a metered worker may read besides what it
// was granted before.
type Grant struct {
	Bytes int64 `json:"bytes"`
}

// Progress says how far the whole request and each unfinished item is.
type Progress struct {
	Bytes   int64   `json:"bytes"`           // fetched or found, so far
	Fetched int64   `json:"fetched"`         // over the network, so far
	Total   int64   `json:"total,omitempty"` // 0 while unknown
	Files   int64   `json:"files"`           // complete
	Rate    float64 `json:"rate"`            // bytes per second, lately
	Waiting string  `json:"waiting,omitempty"`
	Trouble string  `json:"trouble,omitempty"` // why requests are tried again, while no data comes
	Item    string  `json:"item,omitempty"`    // the redacted URL being fetched
}

// Log is a line for the shim's log.
type Log struct {
	Level   string `json:"level"` // "debug", "info", "warning" or "error"
	Message string `json:"message"`
}

// Report is how a finished request went.
type Report struct {
	Items    []ItemReport  `json:"items"`
	Bytes    int64         `json:"bytes"`   // in the volume now
	Fetched  int64         `json:"fetched"` // over the network, this time
	Files    int64         `json:"files"`
	Duration time.Duration `json:"duration"` // ns
	// Linked lists paths below Dir that share an inode with the node's cache.
	Linked bool `json:"linked,omitempty"`
}

// ItemReport is how one download went.
type ItemReport struct {
	Mounts   []string      `json:"mounts"`
	URL      string        `json:"url"` // redacted
	Path     string        `json:"path"`
	Bytes    int64         `json:"bytes"`
	Fetched  int64         `json:"fetched"`
	Files    int64         `json:"files"`
	Duration time.Duration `json:"duration"` // ns
	Attempts int           `json:"attempts"` // requests, those for parts included
	Digest   string        `json:"digest,omitempty"`
	Cache    string        `json:"cache,omitempty"` // "", "hit", "miss", "found"
}

// Failure is why a request failed, ready for a person: redacted, one line.
type Failure struct {
	// Kind is a gRPC code's name in lower case with underscores, as far as
	// DESIGN uses them: "invalid_argument", "not_found", "permission_denied",
	// "resource_exhausted", "unavailable", "deadline_exceeded", "canceled",
	// "data_loss", "internal".
	Kind    string `json:"kind"`
	Message string `json:"message"`
}
