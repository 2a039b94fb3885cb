// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"errors"
	"fmt"
	"io"

	"github.com/containerd/typeurl/v2"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"gvisor.dev/gvisor/pkg/shim/v1/runtimeoptions"
)

// bootstrap is what containerd tells the `start` command on stdin, as far as we
// use it.
type bootstrap struct {
	// ConfigPath is the runtime option of that name, "" when there is none.
	ConfigPath string
	// SocketDir is where containerd 2.3 and later want the shim's socket, ""
	// for the default.
	SocketDir string
}

// maxBootstrap bounds what is read from stdin, bytes.
const maxBootstrap = 1 << 20

// Field numbers of containerd's BootstrapParams and Extension, from
// github.com/containerd/containerd api/runtime/bootstrap/v1/bootstrap.proto.
// The generated package needs a newer containerd/api than gVisor's shim builds with.
const (
	fieldInstanceID = 1
	fieldNamespace  = 2
	fieldExtensions = 8
	fieldSocketDir  = 9

	fieldExtensionValue = 1
)

// readBootstrap reads the `start` command's stdin in either of its two forms.
// Up to containerd 2.2 it is a google.protobuf.Any of the runtime options, or
// nothing; from 2.3 on it is a BootstrapParams that carries that Any as an
// extension. Both parse as the other's wire form, so id and namespace of the
// command line tell them apart, as containerd itself does (pkg/shim/compat.go).
func readBootstrap(stdin io.Reader, id, namespace string) (bootstrap, error) {
	data, err := io.ReadAll(io.LimitReader(stdin, maxBootstrap+1))
	if err != nil {
		return bootstrap{}, fmt.Errorf("read bootstrap parameters: %w", err)
	}
	if len(data) > maxBootstrap {
		return bootstrap{}, fmt.Errorf("bootstrap parameters are larger than %d bytes", maxBootstrap)
	}
	if len(data) == 0 {
		return bootstrap{}, nil
	}
	b := bootstrap{}
	if p, err := parseParams(data); err == nil && p.id == id && p.namespace == namespace {
		b.SocketDir = p.socketDir
		for _, options := range p.extensions {
			if err := b.takeOptions(options); err != nil {
				return bootstrap{}, err
			}
		}
		return b, nil
	}
	var options anypb.Any
	if err := proto.Unmarshal(data, &options); err != nil {
		return bootstrap{}, fmt.Errorf("parse runtime options: %w", err)
	}
	return b, b.takeOptions(&options)
}

// takeOptions keeps the ConfigPath of options. Options of another type are not
// for us: containerd passes whatever the caller named.
func (b *bootstrap) takeOptions(options *anypb.Any) error {
	path, err := configPath(options)
	if err != nil {
		return err
	}
	if path != "" {
		b.ConfigPath = path
	}
	return nil
}

// configPath returns the ConfigPath in a task's runtime options, "" when they
// are missing or of a type that has none.
func configPath(options *anypb.Any) (string, error) {
	if options == nil || !typeurl.Is(options, &runtimeoptions.Options{}) {
		return "", nil
	}
	var o runtimeoptions.Options
	if err := typeurl.UnmarshalTo(options, &o); err != nil {
		return "", fmt.Errorf("parse runtime options: %w", err)
	}
	return o.ConfigPath, nil
}

// params is a BootstrapParams, as far as we use it.
type params struct {
	id, namespace, socketDir string
	extensions               []*anypb.Any
}

var errWire = errors.New("malformed protobuf")

func parseParams(data []byte) (params, error) {
	var p params
	err := eachField(data, func(number protowire.Number, value []byte) error {
		switch number {
		case fieldInstanceID:
			p.id = string(value)
		case fieldNamespace:
			p.namespace = string(value)
		case fieldSocketDir:
			p.socketDir = string(value)
		case fieldExtensions:
			return eachField(value, func(number protowire.Number, value []byte) error {
				if number != fieldExtensionValue {
					return nil
				}
				var options anypb.Any
				if err := proto.Unmarshal(value, &options); err != nil {
					return err
				}
				p.extensions = append(p.extensions, &options)
				return nil
			})
		}
		return nil
	})
	return p, err
}

// eachField calls f for every length-delimited field of a protobuf message.
func eachField(data []byte, f func(protowire.Number, []byte) error) error {
	for len(data) > 0 {
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return errWire
		}
		data = data[n:]
		if kind != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(number, kind, data); n < 0 {
				return errWire
			}
			data = data[n:]
			continue
		}
		value, n := protowire.ConsumeBytes(data)
		if n < 0 {
			return errWire
		}
		data = data[n:]
		if err := f(number, value); err != nil {
			return err
		}
	}
	return nil
}
