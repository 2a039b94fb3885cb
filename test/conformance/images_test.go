// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil/binaries"
)

// images is the registry that stands for all others.
type images struct {
	address string
	server  *http.Server
}

// serveImages starts a registry with every image that critest pulls: cri-tools
// pkg/validate and images/.
func serveImages() (*images, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	quiet := log.New(io.Discard, "", 0)
	s := &images{
		address: listener.Addr().String(),
		server:  &http.Server{Handler: registry.New(registry.Logger(quiet)), ErrorLog: quiet},
	}
	go func() { _ = s.server.Serve(listener) }()
	if err := s.fill(); err != nil {
		s.Close()
		return nil, fmt.Errorf("make critest's images: %w", err)
	}
	return s, nil
}

func (s *images) Close() { _ = s.server.Close() }

// fill makes the images and stores each under its names.
func (s *images) fill() error {
	ours, tools, err := binaries.Dirs()
	if err != nil {
		return err
	}
	standin, err := os.ReadFile(filepath.Join(ours, "standin"))
	if err != nil {
		return err
	}
	base, err := busybox(filepath.Join(tools, "busybox"))
	if err != nil {
		return err
	}
	all := []imageSpec{
		{names: []string{"e2e-test-images/busybox:1.29-2"}, config: v1.Config{Cmd: []string{"sh"}}},
		{
			names:  []string{"pause:3.9"},
			layers: []layer{{file("pause", 0o755, standin)}}, config: v1.Config{Entrypoint: []string{"/pause"}},
		},
		{
			names:  []string{"e2e-test-images/nonewprivs:1.3"},
			layers: []layer{{file("nnp", 0o4755, standin)}}, config: v1.Config{Entrypoint: []string{"/nnp"}},
		},
		server("nginx", "80", standin, "e2e-test-images/nginx:1.14-2"),
		server("nginx", "12003", standin, staging+"hostnet-nginx-"+runtime.GOARCH+":latest"),
		server("httpd", "80", standin, "e2e-test-images/httpd:2.4.39-4"),
		marked("latest"), marked("1"), marked("2"), marked("3"),
		marked("tag", staging+"test-image-tag:test", staging+"test-image-tag:all"),
		marked("tags", staging+"test-image-tags:1", staging+"test-image-tags:2", staging+"test-image-tags:3"),
		of("uid", "1002"), of("username", "www-data"), of("uid-group", "1003:users"), of("username-group", "www-data:www-data"),
		{
			names:  []string{staging + "test-image-predefined-group:latest"},
			layers: []layer{accounts("default-user:x:1000:1000::/home:/bin/sh\n", "default-user:x:1000:\ngroup-defined-in-image:x:50000:default-user\n")},
			config: v1.Config{User: "1000"},
		},
	}
	for _, image := range all {
		made, err := build(append([]layer{base}, image.layers...), image.config)
		if err != nil {
			return err
		}
		for _, each := range image.names {
			if err := s.store(each, made); err != nil {
				return fmt.Errorf("store %s: %w", each, err)
			}
		}
	}
	return nil
}

// staging is where critest's own images are, below gcr.io.
const staging = "k8s-staging-cri-tools/"

// imageSpec is an image on top of busybox.
type imageSpec struct {
	names  []string
	layers []layer
	config v1.Config
}

// server is an image whose program serves a page at a port.
func server(program, port string, standin []byte, names ...string) imageSpec {
	return imageSpec{
		names: names, layers: []layer{{file("usr/sbin/"+program, 0o755, standin)}},
		config: v1.Config{Entrypoint: []string{"/usr/sbin/" + program, "master process", port}},
	}
}

// marked is an image that differs from all others by a file; without names it is
// test-image-MARK.
func marked(mark string, names ...string) imageSpec {
	if names == nil {
		names = []string{staging + "test-image-" + mark + ":latest"}
	}
	return imageSpec{names: names, layers: []layer{{file(mark, 0o644, []byte(mark+"\n"))}}, config: v1.Config{Cmd: []string{"sh"}}}
}

// of is an image that runs as a user.
func of(name, user string) imageSpec {
	spec := marked("user-" + name)
	spec.config.User = user
	return spec
}

func (s *images) store(image string, made v1.Image) error {
	ref, err := name.ParseReference(s.address+"/"+image, name.Insecure)
	if err != nil {
		return err
	}
	return remote.Write(ref, made)
}

// layer lists files; each is a tar header and its content.
type layer []entry

type entry struct {
	tar.Header
	content []byte
}

func file(path string, mode int64, content []byte) entry {
	return entry{tar.Header{Typeflag: tar.TypeReg, Name: path, Mode: mode, Size: int64(len(content))}, content}
}

func folder(path string, mode int64) entry {
	return entry{tar.Header{Typeflag: tar.TypeDir, Name: path + "/", Mode: mode}, nil}
}

// accounts are the image's users and groups beside those that specs count on.
func accounts(users, groups string) layer {
	return layer{
		file("etc/passwd", 0o644, []byte("root:x:0:0:root:/root:/bin/sh\nwww-data:x:33:33::/var/www:/bin/false\nnobody:x:65534:65534::/home:/bin/false\n"+users)),
		file("etc/group", 0o644, []byte("root:x:0:\nwww-data:x:33:\nusers:x:100:\nnogroup:x:65534:\n"+groups)),
	}
}

// busybox is what the image of that name has: one program under many names, hard
// links as there.
func busybox(path string) (layer, error) {
	program, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	applets, err := exec.Command(path, "--list").Output()
	if err != nil {
		return nil, fmt.Errorf("list busybox's programs: %w", err)
	}
	all := append(layer{
		folder("bin", 0o755), folder("etc", 0o755), folder("home", 0o755), folder("root", 0o700), folder("tmp", 0o1777),
		folder("usr", 0o755), folder("usr/sbin", 0o755), folder("var", 0o755), folder("var/run", 0o755), folder("var/lib", 0o755),
		file("bin/busybox", 0o755, program),
	}, accounts("", "")...)
	for applet := range strings.FieldsSeq(string(applets)) {
		if applet != "busybox" {
			all = append(all, entry{tar.Header{Typeflag: tar.TypeLink, Name: "bin/" + applet, Linkname: "bin/busybox", Mode: 0o755}, nil})
		}
	}
	return all, nil
}

func build(layers []layer, config v1.Config) (v1.Image, error) {
	image := empty.Image
	for _, each := range layers {
		content, err := each.tar()
		if err != nil {
			return nil, err
		}
		made, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil })
		if err != nil {
			return nil, err
		}
		if image, err = mutate.AppendLayers(image, made); err != nil {
			return nil, err
		}
	}
	existing, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	whole := existing.DeepCopy()
	whole.OS, whole.Architecture, whole.Config = "linux", runtime.GOARCH, config
	whole.Config.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	return mutate.ConfigFile(image, whole)
}

func (l layer) tar() ([]byte, error) {
	var buf bytes.Buffer
	out := tar.NewWriter(&buf)
	for _, each := range l {
		if err := out.WriteHeader(&each.Header); err != nil {
			return nil, fmt.Errorf("pack %s: %w", each.Name, err)
		}
		if _, err := out.Write(each.content); err != nil {
			return nil, fmt.Errorf("pack %s: %w", each.Name, err)
		}
	}
	return buf.Bytes(), out.Close()
}
