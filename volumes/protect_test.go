// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"errors"
	"io/fs"
	"reflect"
	"slices"
	"strings"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"
)

// image is a root file system by its paths; a "/" at the end is a folder.
type image []string

func (i image) Lookup(path string) (Found, error) {
	for _, each := range i {
		if name, to, ok := strings.Cut(each, " -> "); ok && name == path {
			return i.Lookup(to)
		}
		if strings.TrimSuffix(each, "/") == path {
			return Found{Path: path, Host: "/bundle/rootfs" + path, Dir: strings.HasSuffix(each, "/")}, nil
		}
	}
	if path == "/broken" {
		return Found{}, errors.New("input/output error")
	}
	return Found{}, fs.ErrNotExist
}

func protected(t *testing.T, masked, readOnly []string, mounts ...string) (added []specs.Mount, notes []string) {
	t.Helper()
	spec := &specs.Spec{Linux: &specs.Linux{MaskedPaths: masked, ReadonlyPaths: readOnly}}
	for _, at := range mounts {
		spec.Mounts = append(spec.Mounts, specs.Mount{Destination: at, Type: "bind", Source: "/node"})
	}
	root := image{"/bin/ls", "/tmp/", "/etc/", "/etc/passwd", "/data/", "/data/x/", "/sbin -> /bin/ls", "/kernel -> /proc/kcore", "/proc/kcore"}
	notes, err := Protect(spec, root, "/bundle/empty")
	if err != nil {
		t.Fatal(err)
	}
	return spec.Mounts[len(mounts):], notes
}

func TestMaskedAndReadOnlyPathsBecomeMounts(t *testing.T) {
	got, notes := protected(t, []string{"/bin/ls", "/etc/passwd/", "/absent"}, []string{"/tmp", "/etc"})
	want := []specs.Mount{
		{Destination: "/tmp", Type: "bind", Source: "/bundle/rootfs/tmp", Options: []string{"bind", "ro"}},
		{Destination: "/etc", Type: "bind", Source: "/bundle/rootfs/etc", Options: []string{"bind", "ro"}},
		{Destination: "/bin/ls", Type: "bind", Source: "/bundle/empty", Options: []string{"bind", "ro", "nosuid", "nodev", "noexec"}},
	}
	if !reflect.DeepEqual(got, want) || len(notes) > 0 {
		t.Errorf("got %+v, %v", got, notes)
	}
}

func TestAMaskedFolderIsAnEmptyReadOnlyOneButForWhatIsMountedThere(t *testing.T) {
	got, notes := protected(t, []string{"/data"}, nil, "/data/x")
	if len(got) != 1 || got[0].Type != "tmpfs" || got[0].Options[0] != "ro" {
		t.Errorf("got %+v", got)
	}
	if len(notes) != 1 || !strings.Contains(notes[0], "/data/x") {
		t.Errorf("notes are %v", notes)
	}
}

// runsc mounts by the length of the path, and those of one length in any order.
func TestNothingIsMountedOverAMask(t *testing.T) {
	got, _ := protected(t, []string{"/data", "/data/x", "/data/", "/bin/ls"}, []string{"/data/x", "/data", "/bin/ls", "/etc"})
	var at []string
	for _, m := range got {
		at = append(at, m.Destination+" "+m.Type)
	}
	if want := []string{"/etc bind", "/data tmpfs", "/bin/ls bind"}; !slices.Equal(at, want) || got[2].Source != "/bundle/empty" {
		t.Errorf("got %v, want %v", at, want)
	}
}

func TestAMaskFollowsLinks(t *testing.T) {
	got, _ := protected(t, []string{"/sbin"}, nil)
	if len(got) != 1 || got[0].Destination != "/bin/ls" {
		t.Errorf("got %+v", got)
	}
}

func TestGVisorsOwnFileSystemsAreLeftAlone(t *testing.T) {
	masked := []string{"/proc/kcore", "/proc", "/sys/firmware", "/kernel", "/"}
	if got, notes := protected(t, masked, []string{"/proc/sys", "/sys"}); len(got)+len(notes) > 0 {
		t.Errorf("got %+v, %v", got, notes)
	}
	if WantsProtection(&specs.Spec{Linux: &specs.Linux{MaskedPaths: []string{"/proc/kcore"}, ReadonlyPaths: []string{"/proc/sys", "/sys"}}}) {
		t.Error("Kubernetes' own lists make work for every container")
	}
	for _, spec := range []*specs.Spec{
		{Linux: &specs.Linux{MaskedPaths: []string{"/proc/kcore", "/processes"}}},
		{Linux: &specs.Linux{ReadonlyPaths: []string{"/proc/../tmp"}}},
	} {
		if !WantsProtection(spec) {
			t.Errorf("nothing to do for %+v", spec.Linux)
		}
	}
	if WantsProtection(&specs.Spec{}) {
		t.Error("a spec without a linux part wants something")
	}
}

func TestPathsAboveAndBelowOtherMountsAreNotedOnly(t *testing.T) {
	for name, tt := range map[string]struct {
		masked, readOnly []string
		mounts           []string
	}{
		"in a mount":      {masked: []string{"/data/x"}, mounts: []string{"/data/"}},
		"a mount's place": {readOnly: []string{"/data"}, mounts: []string{"/data"}},
		"above a mount":   {readOnly: []string{"/data"}, mounts: []string{"/data/x"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, notes := protected(t, tt.masked, tt.readOnly, tt.mounts...)
			if len(got) > 0 || len(notes) != 1 || !strings.Contains(notes[0], tt.mounts[0]) {
				t.Errorf("got %+v, %v", got, notes)
			}
		})
	}
}

func TestARootFileSystemThatCantBeReadFailsTheContainer(t *testing.T) {
	spec := &specs.Spec{Linux: &specs.Linux{MaskedPaths: []string{"/broken"}}}
	if _, err := Protect(spec, image{}, "/bundle/empty"); err == nil || !strings.Contains(err.Error(), "maskedPaths") {
		t.Errorf("got %v", err)
	}
}
