// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
)

func FuzzParse(f *testing.F) {
	example, err := os.ReadFile("../../deploy/config.toml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(strings.ReplaceAll(string(example), "\n#", "\n"))
	f.Add("[[host_path]]\npath = '/data'\nnamespaces = ['*']\n[storage]\nlimits = { cpu = 0.5, memory = '1Gi' }\n")
	f.Add("\"a.b\" = '''\n[shim]\n'''\n[[endpoint]]\nhost = '[::1]:9'\n")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Parse("f", text)
		if err != nil {
			var all *Error
			if !errors.As(err, &all) || !errors.Is(err, errdefs.ErrInvalidArgument) || len(all.Mistakes) == 0 {
				t.Fatalf("%v lists no mistakes", err)
			}
			if strings.ContainsAny(err.Error(), "\n\r\x00\x1b") {
				t.Fatalf("the error is no single line: %q", err)
			}
			return
		}
		for _, h := range c.HostPaths {
			if where := touches(h.Path, systemFolders, true); where != "" {
				t.Fatalf("allows %q, which touches %s", h.Path, where)
			}
		}
		for _, pattern := range c.Shim.GVisorAnnotations {
			if strings.HasSuffix(pattern, "*") && c.Shim.AllowsAnnotation("dev.gvisor.flag.debug") {
				t.Fatalf("%q allows flags", pattern)
			}
		}
	})
}
