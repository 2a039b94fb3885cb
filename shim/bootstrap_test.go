// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"bytes"
	"strings"
	"testing"

	"github.com/containerd/typeurl/v2"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"gvisor.dev/gvisor/pkg/shim/v1/runtimeoptions"
)

// runtimeOptions are options as containerd passes them for a runtime that isn't
// runc: a runtimeoptions.v1.Options in an Any.
func runtimeOptions(t testing.TB, path string) *anypb.Any {
	t.Helper()
	o, err := typeurl.MarshalAnyToProto(&runtimeoptions.Options{TypeUrl: "io.containerd.sedna.v1.options", ConfigPath: path})
	if err != nil {
		t.Fatal(err)
	}
	return &anypb.Any{TypeUrl: o.TypeUrl, Value: o.Value}
}

// oldForm is the stdin of `start` up to containerd 2.2.
func oldForm(t testing.TB, options *anypb.Any) []byte {
	t.Helper()
	data, err := proto.Marshal(options)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// newForm is the stdin of `start` from containerd 2.3 on.
func newForm(t testing.TB, id, namespace, socketDir string, options *anypb.Any) []byte {
	t.Helper()
	var b []byte
	text := func(number protowire.Number, value string) {
		b = protowire.AppendTag(b, number, protowire.BytesType)
		b = protowire.AppendString(b, value)
	}
	text(fieldInstanceID, id)
	text(fieldNamespace, namespace)
	b = protowire.AppendTag(b, 3, protowire.VarintType) // log_level, a negative enum
	level := int64(-4)
	b = protowire.AppendVarint(b, uint64(level))
	text(4, "v2.4.2")
	if options != nil {
		extension := protowire.AppendTag(nil, fieldExtensionValue, protowire.BytesType)
		extension = protowire.AppendBytes(extension, oldForm(t, options))
		b = protowire.AppendTag(b, fieldExtensions, protowire.BytesType)
		b = protowire.AppendBytes(b, extension)
	}
	if socketDir != "" {
		text(fieldSocketDir, socketDir)
	}
	return b
}

func TestBothFormsOfTheBootstrapAreRead(t *testing.T) {
	const path = "/etc/containerd/sedna/config.toml"
	foreign := &anypb.Any{TypeUrl: "containerd.runc.v1.Options", Value: []byte{0x08, 0x01}}
	for _, tt := range []struct {
		name  string
		stdin []byte
		want  bootstrap
	}{
		{"nothing", nil, bootstrap{}},
		{"old, with a path", oldForm(t, runtimeOptions(t, path)), bootstrap{ConfigPath: path}},
		{"old, without a path", oldForm(t, runtimeOptions(t, "")), bootstrap{}},
		{"old, of another runtime", oldForm(t, foreign), bootstrap{}},
		{"new, with a path", newForm(t, "box", "k8s.io", "", runtimeOptions(t, path)), bootstrap{ConfigPath: path}},
		{"new, with a socket folder", newForm(t, "box", "k8s.io", "/run/s", runtimeOptions(t, path)), bootstrap{path, "/run/s"}},
		{"new, without options", newForm(t, "box", "k8s.io", "", nil), bootstrap{}},
		{"new, of another runtime", newForm(t, "box", "k8s.io", "", foreign), bootstrap{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := readBootstrap(bytes.NewReader(tt.stdin), "box", "k8s.io")
			if err != nil || got != tt.want {
				t.Errorf("got %+v, %v; want %+v", got, err, tt.want)
			}
		})
	}
}

func TestMalformedBootstrapsAreRefused(t *testing.T) {
	for name, stdin := range map[string][]byte{
		"no protobuf":     []byte("{\"ConfigPath\": \"/etc\"}"),
		"cut short":       oldForm(t, runtimeOptions(t, "/etc/config.toml"))[:20],
		"larger than any": bytes.Repeat([]byte("x"), maxBootstrap+1),
		"broken options":  oldForm(t, &anypb.Any{TypeUrl: "runtimeoptions.v1.Options", Value: []byte{0x12, 0x7f}}),
	} {
		if got, err := readBootstrap(bytes.NewReader(stdin), "box", "k8s.io"); err == nil {
			t.Errorf("%s: got %+v and no error", name, got)
		}
	}
}

func FuzzReadBootstrap(f *testing.F) {
	f.Add(oldForm(f, runtimeOptions(f, "/etc/containerd/sedna/config.toml")))
	f.Add(newForm(f, "box", "k8s.io", "/run/s", runtimeOptions(f, "/etc/c.toml")))
	f.Add([]byte("\x0a\x03box\x12\x06k8s.io\x42\x00"))
	f.Fuzz(func(t *testing.T, stdin []byte) {
		got, err := readBootstrap(bytes.NewReader(stdin), "box", "k8s.io")
		if err != nil && got != (bootstrap{}) {
			t.Errorf("got %+v beside %v", got, err)
		}
		if err == nil && !strings.Contains(string(stdin), got.ConfigPath) {
			t.Errorf("path %q is not in the input", got.ConfigPath)
		}
	})
}
