// SPDX-License-Identifier: Apache-2.0

// Package image makes container images out of one static binary, without a
// registry: an archive that `ctr images import` takes.
package image

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"runtime"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// Binary is where the program is inside the image, and its entrypoint.
const Binary = "/workload"

// File is a file of the image that no program needs.
const File = "/etc/motd"

// Write makes an image that runs the binary with args by default, and writes
// it to file under all the given names.
func Write(file, binary string, args []string, names ...string) error {
	img, err := build(binary, args)
	if err != nil {
		return fmt.Errorf("build an image of %s: %w", binary, err)
	}
	tagged := make(map[name.Reference]v1.Image, len(names))
	for _, each := range names {
		ref, err := name.ParseReference(each)
		if err != nil {
			return fmt.Errorf("name an image: %w", err)
		}
		tagged[ref] = img
	}
	if err := tarball.MultiRefWriteToFile(file, tagged); err != nil {
		return fmt.Errorf("write image archive: %w", err)
	}
	return nil
}

func build(binary string, args []string) (v1.Image, error) {
	content, err := layer(binary)
	if err != nil {
		return nil, err
	}
	opener := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }
	rootfs, err := tarball.LayerFromOpener(opener)
	if err != nil {
		return nil, fmt.Errorf("make layer: %w", err)
	}
	img, err := mutate.AppendLayers(empty.Image, rootfs)
	if err != nil {
		return nil, fmt.Errorf("append layer: %w", err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	// Without a platform containerd's import drops the image silently.
	config.OS, config.Architecture = "linux", runtime.GOARCH
	config.Config = v1.Config{Entrypoint: []string{Binary}, Cmd: args, Env: []string{"PATH=/"}, WorkingDir: "/"}
	return mutate.ConfigFile(img, config)
}

// layer is a tar of the binary and the few folders that programs expect.
func layer(binary string) ([]byte, error) {
	program, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	out := tar.NewWriter(&buf)
	for _, dir := range []struct {
		name string
		mode int64
	}{{"tmp/", 0o1777}, {"etc/", 0o755}} {
		if err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir.name, Mode: dir.mode}); err != nil {
			return nil, err
		}
	}
	for _, file := range []struct {
		name    string
		mode    int64
		content []byte
	}{{Binary, 0o755, program}, {File, 0o644, []byte("a file of the image\n")}} {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: file.name[1:], Mode: file.mode, Size: int64(len(file.content))}
		if err := out.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := out.Write(file.content); err != nil {
			return nil, err
		}
	}
	return buf.Bytes(), out.Close()
}
