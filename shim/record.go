// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/containerd/containerd/v2/pkg/atomicfile"
	"github.com/containerd/errdefs"
	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sedna-io/containerd-shim-sedna/internal/config"
	"github.com/sedna-io/containerd-shim-sedna/shim/bundle"
	"github.com/sedna-io/containerd-shim-sedna/storage/plan"
	"github.com/sedna-io/containerd-shim-sedna/volumes"
)

// recordFile in the sandbox's bundle holds the pod's record, mode 0600.
const recordFile = "sedna-record.json"

// recordVersion is raised when an older shim could misread a record.
const recordVersion = 1

// record is what was decided about a pod when its sandbox was created. The
// pod's containers and the `delete` command follow it.
type record struct {
	Version int `json:"version"`

	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	UID       string `json:"uid,omitempty"`

	// Asked has, for each annotation of the pod that concerns us, a keyed hash
	// of its value: enough to see a change, nothing to read a secret from.
	Asked map[string]string `json:"asked,omitempty"`
	Salt  string            `json:"salt"`
	// Allowed are the node's patterns of gVisor annotations that a pod may set.
	Allowed []string `json:"allowed,omitempty"`
	// FullStats and ProtectPaths are the node's settings of these names.
	FullStats    bool `json:"fullStats,omitempty"`
	ProtectPaths bool `json:"protectPaths,omitempty"`
	// Download names the volume that received downloads, "" for none.
	Download string `json:"download,omitempty"`
	// Hints is what was decided about each volume.
	Hints volumes.Decisions `json:"hints"`
	// HostDir is the folder below which host paths are mounted, "" for none.
	HostDir string `json:"hostDir,omitempty"`
	// Inject is what containers get, nil when the pod asked for nothing.
	Inject *injection `json:"inject,omitempty"`

	// bundle is the sandbox's, in the process that prepared it.
	bundle string
}

// injection is volumes.Injection as it is kept.
type injection struct {
	Volume     string           `json:"volume,omitempty"`
	MountPath  string           `json:"mountPath"`
	Writable   bool             `json:"writable,omitempty"`
	Containers []string         `json:"containers,omitempty"`
	Skip       []string         `json:"skip,omitempty"`
	Variables  []recordVariable `json:"variables,omitempty"`
	HostMounts []specs.Mount    `json:"hostMounts,omitempty"`
}

// recordVariable is plan.Variable with what it really says: a container's
// config.json shows the same.
type recordVariable struct {
	Name   string        `json:"name"`
	Mount  string        `json:"mount"`
	Values []recordValue `json:"values"`
}

type recordValue struct {
	Download string `json:"download,omitempty"`
	Literal  string `json:"literal,omitempty"`
}

func recordVariables(variables []plan.Variable) []recordVariable {
	var out []recordVariable
	for _, v := range variables {
		kept := recordVariable{Name: v.Name, Mount: v.Mount}
		for _, value := range v.Values {
			kept.Values = append(kept.Values, recordValue{value.Download, value.Literal.Reveal()})
		}
		out = append(out, kept)
	}
	return out
}

func (in *injection) volumes() volumes.Injection {
	out := volumes.Injection{
		Volume: in.Volume, MountPath: in.MountPath, Writable: in.Writable,
		Containers: in.Containers, Skip: in.Skip, HostMounts: in.HostMounts,
	}
	for _, kept := range in.Variables {
		v := plan.Variable{Name: kept.Name, Mount: kept.Mount}
		for _, value := range kept.Values {
			v.Values = append(v.Values, plan.Value{Download: value.Download, Literal: plan.NewSecret(value.Literal)})
		}
		out.Variables = append(out.Variables, v)
	}
	return out
}

func newRecord(dir string, pod bundle.Pod, annotations map[string]string, cfg *config.Config) *record {
	r := &record{
		Version:   recordVersion,
		Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID,
		Salt: rand.Text(), Allowed: cfg.Shim.GVisorAnnotations,
		FullStats: cfg.Shim.FullStats, ProtectPaths: cfg.Shim.ProtectPaths,
		bundle: dir,
	}
	r.Asked = r.digests(annotations)
	return r
}

// digests returns a keyed hash of every annotation that a pod can ask us by.
func (r *record) digests(annotations map[string]string) map[string]string {
	var all map[string]string
	for key, value := range annotations {
		if !strings.HasPrefix(key, annotationPrefix) {
			continue
		}
		if all == nil {
			all = map[string]string{}
		}
		mac := hmac.New(sha256.New, []byte(r.Salt))
		mac.Write([]byte(value))
		all[key] = hex.EncodeToString(mac.Sum(nil))
	}
	return all
}

// changed lists the annotations of ours that aren't as they were when the pod
// was started, sorted.
func (r *record) changed(annotations map[string]string) []string {
	now := r.digests(annotations)
	var keys []string
	for key, digest := range now {
		if r.Asked[key] != digest {
			keys = append(keys, key)
		}
	}
	for key := range r.Asked {
		if _, ok := now[key]; !ok {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// save writes the record into the sandbox's bundle, whole or not at all.
func (r *record) save(bundle string) error {
	data, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode the pod's record: %w", err)
	}
	return writeWhole(filepath.Join(bundle, recordFile), data)
}

// writeWhole replaces a file of ours that nobody else may read.
func writeWhole(path string, data []byte) error {
	f, err := atomicfile.New(path, 0o600)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if _, err := f.Write(data); err != nil {
		_ = f.Cancel()
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// loadRecord reads the record in a sandbox's bundle.
func loadRecord(bundle string) (*record, error) {
	data, err := os.ReadFile(filepath.Join(bundle, recordFile))
	if err != nil {
		return nil, err
	}
	var r record
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("read %s: %w", recordFile, err)
	}
	if r.Version != recordVersion {
		return nil, fmt.Errorf("%s has version %d, this shim knows %d: %w", recordFile, r.Version, recordVersion, errdefs.ErrFailedPrecondition)
	}
	return &r, nil
}
