// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
)

func TestHostPathsNeedARootThatAdmitsTheNamespace(t *testing.T) {
	allowed := []HostRoot{
		{Path: "/data", Namespaces: []string{"*"}},
		{Path: "/data/out/", Writable: true, Namespaces: []string{"train"}},
		{Path: "/secret", Namespaces: []string{"ops"}},
		{Path: "/nobody"},
	}
	for _, c := range []struct {
		source, namespace, root string // root "" is refused
		writable                bool
	}{
		{"/data", "any", "/data", false},
		{"/data/in", "any", "/data", false},
		{"/data/out", "any", "/data", false},
		{"/data/out/x", "train", "/data/out/", true},
		{"/data2", "any", "", false},
		{"/dat", "any", "", false},
		{"/", "any", "", false},
		{"/secret/x", "any", "", false},
		{"/secret/x", "ops", "/secret", false},
		{"/nobody/x", "ops", "", false},
		{"/data", "", "/data", false},
	} {
		p := &Plan{HostPaths: []HostPath{{Mounts: []string{"m"}, Source: c.source}}}
		root, ok := p.HostPaths[0].Root(allowed, c.namespace)
		if ok != (c.root != "") || root.Path != c.root || root.Writable != c.writable {
			t.Errorf("%s for %s: %+v, %v", c.source, c.namespace, root, ok)
		}
		err := p.CheckHostPaths(allowed, c.namespace)
		if (err == nil) != ok {
			t.Errorf("%s for %s: %v", c.source, c.namespace, err)
		}
		if err == nil {
			continue
		}
		if !errors.Is(err, errdefs.ErrPermissionDenied) {
			t.Errorf("%v is no ErrPermissionDenied", err)
		}
		for _, say := range []string{"storage.sedna.io/m.url", "[[host_path]]", c.source, c.namespace} {
			if !strings.Contains(err.Error(), say) {
				t.Errorf("the error doesn't say %s: %v", say, err)
			}
		}
	}
}

func TestTwoHostPathsOfOneNameAreTwoMounts(t *testing.T) {
	long := "/" + strings.Repeat("long/", 30)
	p := mustParse(t, "m.url: /opt/a.b/;/opt/a-b/;/opt/A b/;"+long+";"+long+"x/")
	names := map[string]bool{}
	for _, h := range p.HostPaths {
		if !regexp.MustCompile(`^sedna-[a-z0-9-]{1,56}[a-z0-9]$`).MatchString(h.Volume) {
			t.Errorf("%s is named %q", h.Source, h.Volume)
		}
		names[h.Volume] = true
	}
	if len(p.HostPaths) != 5 || len(names) != 5 {
		t.Errorf("host paths are %+v", p.HostPaths)
	}
	if !names["sedna-opt-a-b"] {
		t.Errorf("nobody has Sedna's own name: %v", names)
	}
}

func TestOneHostPathInTwoMountsIsMountedOnce(t *testing.T) {
	p := mustParse(t, "a.url: /opt/d/x", "b.url: /opt/d/", "b.mode: writeonly")
	if len(p.HostPaths) != 1 || !p.HostPaths[0].Writable || len(p.HostPaths[0].Mounts) != 2 {
		t.Errorf("host paths are %+v", p.HostPaths)
	}
}

func TestFilesThatMountsReadAreNamedAndThoseTheyWriteAreNot(t *testing.T) {
	p := mustParse(t, "a.url: /opt/d/x;/opt/d/a", "b.url: /opt/d/x", "c.url: /opt/d/out", "c.mode: writeonly", "d.url: /opt/d/")
	if len(p.HostPaths) != 1 || !slices.Equal(p.HostPaths[0].Files, []string{"a", "x"}) {
		t.Errorf("host paths are %+v", p.HostPaths)
	}
}
