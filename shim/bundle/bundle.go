// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/containerd/errdefs"
	specs "github.com/opencontainers/runtime-spec/specs-go"
)

// configName is the spec's file in a bundle, by the OCI runtime spec, bundle.md.
const configName = "config.json"

// maxConfig bounds what Load reads. containerd takes a container's description
// in one gRPC message of at most 16 MiB, and the spec is made from that.
const maxConfig = 16 << 20

// Bundle is one OCI bundle in memory. It is not safe for concurrent use.
type Bundle struct {
	// Dir is the bundle's folder.
	Dir string
	// Spec is the view to edit; Save writes what was changed in it.
	Spec *specs.Spec

	raw    []byte // config.json as it is on disk
	before []byte // Spec as JSON when it was raw
}

// Load reads the bundle in dir. A config.json that is a symbolic link, too big
// or not exactly one JSON object without duplicate keys is refused.
func Load(dir string) (*Bundle, error) {
	raw, err := readConfig(filepath.Join(dir, configName))
	if err != nil {
		return nil, err
	}
	if err := checkObject(raw); err != nil {
		return nil, fmt.Errorf("parse %s: %w: %w", filepath.Join(dir, configName), err, errdefs.ErrInvalidArgument)
	}
	spec := new(specs.Spec)
	if err := json.Unmarshal(raw, spec); err != nil {
		return nil, fmt.Errorf("parse %s: %w: %w", filepath.Join(dir, configName), err, errdefs.ErrInvalidArgument)
	}
	before, err := json.Marshal(spec)
	if err != nil {
		return nil, fmt.Errorf("encode the spec of %s: %w", dir, err)
	}
	return &Bundle{Dir: dir, Spec: spec, raw: raw, before: before}, nil
}

// readConfig reads the regular file at path, at most maxConfig bytes of it.
func readConfig(path string) ([]byte, error) {
	// O_NONBLOCK: a FIFO put there must not hang the shim.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ELOOP) {
		return nil, fmt.Errorf("open %s: it is a symbolic link: %w", path, errdefs.ErrInvalidArgument)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("open the bundle: %w: %w", err, errdefs.ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("open the bundle: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("open the bundle: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("open %s: it is not a regular file: %w", path, errdefs.ErrInvalidArgument)
	}
	raw, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	if err != nil {
		return nil, fmt.Errorf("read the bundle: %w", err)
	}
	if len(raw) > maxConfig {
		return nil, fmt.Errorf("read %s: it is larger than %d MiB: %w", path, maxConfig>>20, errdefs.ErrInvalidArgument)
	}
	return raw, nil
}

// Save writes config.json if Spec was changed since Load or the last Save. The
// file is replaced in one step and keeps its mode and owner: a reader, or a
// node that loses power, sees all of the old one or all of the new one.
func (b *Bundle) Save() (changed bool, err error) {
	after, err := json.Marshal(b.Spec)
	if err != nil {
		return false, fmt.Errorf("encode the spec of %s: %w", b.Dir, err)
	}
	if bytes.Equal(b.before, after) {
		return false, nil
	}
	raw, err := merge(b.raw, b.before, after)
	if err != nil {
		return false, fmt.Errorf("edit the spec of %s: %w", b.Dir, err)
	}
	if err := reads(raw, after); err != nil {
		return false, fmt.Errorf("edit the spec of %s: %w", b.Dir, err)
	}
	if err := replaceFile(filepath.Join(b.Dir, configName), raw); err != nil {
		return false, fmt.Errorf("replace config.json of %s: %w", b.Dir, err)
	}
	b.raw, b.before = raw, after
	return true, nil
}

// reads checks that whoever parses raw gets the spec that want encodes. It
// fails for members whose names differ in case only, which encoding/json takes
// for one field and merge for two.
func reads(raw, want []byte) error {
	var spec specs.Spec
	if err := json.Unmarshal(raw, &spec); err != nil {
		return fmt.Errorf("read the result back: %w", err)
	}
	got, err := json.Marshal(&spec)
	if err != nil {
		return fmt.Errorf("encode the result: %w", err)
	}
	if !bytes.Equal(got, want) {
		return fmt.Errorf("the result reads back differently, are there fields in unusual case?: %w", errdefs.ErrInvalidArgument)
	}
	return nil
}
