// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/google/go-cmp/cmp"
	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/sedna-io/containerd-shim-sedna/storage/plan"
)

// pod is a kubelet folder with one download volume called models.
type pod struct {
	dir    string // PODS/UID
	models string
}

func newPod(t *testing.T, files ...string) pod {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	p := pod{dir: filepath.Join(root, "pods", ownUID)}
	p.models = filepath.Join(p.dir, "volumes", emptyDirPlugin, "models")
	makeTree(t, p.models, append(files, "./")...)
	return p
}

// makeTree makes files and, where a name ends in /, folders below dir.
func makeTree(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		path := filepath.Join(dir, name)
		if strings.HasSuffix(name, "/") {
			if err := os.MkdirAll(path, 0o755); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// subPath makes what kubelet makes for a container that mounts below by
// subPath: a bind mount, or for tests without privilege a hard link of a file.
func (p pod) subPath(t *testing.T, index int, below string) string {
	t.Helper()
	target := filepath.Join(p.dir, "volume-subpaths", "models", "main", fmt.Sprint(index))
	source := filepath.Join(p.models, below)
	if info, err := os.Stat(source); err == nil && info.Mode().IsRegular() {
		makeTree(t, filepath.Dir(target), "./")
		if err := os.Link(source, target); err != nil {
			t.Fatal(err)
		}
		return target
	}
	makeTree(t, target, "./")
	if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil {
		t.Skipf("needs the privilege to bind mount, as kubelet does for a subPath: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(target, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return target
}

func (p pod) injection(paths ...string) Injection {
	in := Injection{Volume: p.models, MountPath: "/downloads"}
	for i, path := range paths {
		in.Variables = append(in.Variables, plan.Variable{
			Name: fmt.Sprintf("V%d", i), Mount: fmt.Sprintf("m%d", i), Values: []plan.Value{{Download: path}},
		})
	}
	return in
}

func container(mounts ...specs.Mount) *specs.Spec {
	return &specs.Spec{Process: &specs.Process{Env: []string{"PATH=/bin"}}, Mounts: mounts}
}

func bind(source, destination string, options ...string) specs.Mount {
	return specs.Mount{Type: "bind", Source: source, Destination: destination, Options: options}
}

// inject runs Inject twice and checks that the second time changes nothing.
func inject(t *testing.T, spec *specs.Spec, in Injection) []string {
	t.Helper()
	notes, err := Inject(spec, "main", in)
	if err != nil {
		t.Fatal(err)
	}
	before := text(spec)
	again, err := Inject(spec, "main", in)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, text(spec)); diff != "" {
		t.Errorf("a second run changed it: %s", diff)
	}
	if diff := cmp.Diff(notes, again); diff != "" {
		t.Errorf("a second run said: %s", diff)
	}
	return notes
}

func want(t *testing.T, spec *specs.Spec, env []string, mounts ...specs.Mount) {
	t.Helper()
	if diff := cmp.Diff(append([]string{"PATH=/bin"}, env...), spec.Process.Env); diff != "" {
		t.Errorf("environment: %s", diff)
	}
	if diff := cmp.Diff(mounts, spec.Mounts); diff != "" {
		t.Errorf("mounts: %s", diff)
	}
}

func (p pod) ours(destination, access string) specs.Mount {
	return bind(p.models, destination, "rbind", "rprivate", "nosuid", "nodev", access)
}

func TestAContainerGetsTheMountAndTheVariable(t *testing.T) {
	p := newPod(t, "host/model.bin")
	spec := container()
	inject(t, spec, p.injection("host/model.bin"))
	want(t, spec, []string{"V0=/downloads/host/model.bin"}, p.ours("/downloads", "ro"))
}

func TestAWritableVolumeIsMountedWritable(t *testing.T) {
	p := newPod(t)
	spec := container(bind(p.models, "/own", "rbind", "rw"))
	in := p.injection()
	in.Writable = true
	inject(t, spec, in)
	want(t, spec, nil, bind(p.models, "/own", "rbind", "rw"))
	spec = container()
	inject(t, spec, in)
	want(t, spec, nil, p.ours("/downloads", "rw"))
}

func TestAMountThatTheContainerHasIsFollowedAndMadeReadOnly(t *testing.T) {
	p := newPod(t, "host/model.bin")
	spec := container(bind(p.models, "/opt/models", "rbind", "rw"), bind(p.models, "/again", "ro", "rw"))
	inject(t, spec, p.injection("host/model.bin"))
	want(t, spec, []string{"V0=/opt/models/host/model.bin"},
		bind(p.models, "/opt/models", "rbind", "ro"), bind(p.models, "/again", "ro"))
}

func TestAMountThroughASymbolicLinkIsOneOfTheVolume(t *testing.T) {
	p := newPod(t, "host/model.bin")
	link := filepath.Join(t.TempDir(), "kubelet")
	if err := os.Symlink(filepath.Dir(filepath.Dir(p.dir)), link); err != nil {
		t.Fatal(err)
	}
	source := filepath.Join(link, "pods", ownUID, "volumes", emptyDirPlugin, "models")
	spec := container(bind(source, "/opt/models", "rbind"))
	inject(t, spec, p.injection("host/model.bin"))
	want(t, spec, []string{"V0=/opt/models/host/model.bin"}, bind(source, "/opt/models", "rbind", "ro"))
}

// kata-containers/kata-containers#12218: a subPath comes from another path.
func TestAVariableIsRelativeToTheSubPathThatShowsIt(t *testing.T) {
	p := newPod(t, "host/a/model.bin", "host/b/data.bin")
	sub := p.subPath(t, 0, "host/a")
	spec := container(bind(sub, "/model", "rbind", "rw"))
	inject(t, spec, p.injection("host/a/model.bin", "host/a"))
	want(t, spec, []string{"V0=/model/model.bin", "V1=/model"}, bind(sub, "/model", "rbind", "ro"))
}

func TestWhatNoSubPathShowsIsMountedInAddition(t *testing.T) {
	p := newPod(t, "host/a/model.bin", "host/b/data.bin")
	sub := p.subPath(t, 0, "host/a")
	spec := container(bind(sub, "/model", "rbind"))
	inject(t, spec, p.injection("host/a/model.bin", "host/b", "host"))
	want(t, spec, []string{"V0=/model/model.bin", "V1=/downloads/host/b", "V2=/downloads/host"},
		bind(sub, "/model", "rbind", "ro"), p.ours("/downloads", "ro"))
}

func TestASubPathOfTheWholeVolumeOrAFileIsFollowed(t *testing.T) {
	p := newPod(t, "host/model.bin")
	all := p.subPath(t, 0, ".")
	spec := container(bind(all, "/all"))
	inject(t, spec, p.injection("host/model.bin"))
	want(t, spec, []string{"V0=/all/host/model.bin"}, bind(all, "/all", "ro"))

	file := p.subPath(t, 1, "host/model.bin")
	spec = container(bind(file, "/etc/model"))
	inject(t, spec, p.injection("host/model.bin"))
	want(t, spec, []string{"V0=/etc/model"}, bind(file, "/etc/model", "ro"))
}

func TestAMountOfAFolderInsideTheVolumeIsReadOnlyToo(t *testing.T) {
	p := newPod(t, "host/a/model.bin")
	spec := container(bind(filepath.Join(p.models, "host"), "/h", "rbind", "rw"))
	inject(t, spec, p.injection("host/a/model.bin"))
	want(t, spec, []string{"V0=/h/a/model.bin"}, bind(filepath.Join(p.models, "host"), "/h", "rbind", "ro"))
}

func TestOtherVolumesStayAsTheyAre(t *testing.T) {
	p := newPod(t, "x")
	other := strings.Replace(p.models, ownUID, otherUID, 1)
	makeTree(t, other, "x")
	mounts := []specs.Mount{
		bind(other, "/other", "rbind", "rw"),
		bind(p.models+"-2", "/sibling", "rbind", "rw"),
		bind(filepath.Join(p.dir, "volume-subpaths", "models2", "main", "0"), "/sub", "rw"),
		{Type: "proc", Source: "proc", Destination: "/proc"},
	}
	spec := container(mounts...)
	inject(t, spec, p.injection())
	want(t, spec, nil, append(mounts, p.ours("/downloads", "ro"))...)
}

func TestASkippedContainerGetsNothingButCannotWrite(t *testing.T) {
	p := newPod(t, "x")
	for name, change := range map[string]func(*Injection){
		"skipped by the node":   func(in *Injection) { in.Skip = []string{"main"} },
		"not named by the pod":  func(in *Injection) { in.Containers = []string{"other"} },
		"nobody is named":       func(in *Injection) { in.Containers = []string{} },
		"named and yet skipped": func(in *Injection) { in.Containers, in.Skip = []string{"main"}, []string{"main"} },
	} {
		t.Run(name, func(t *testing.T) {
			in := p.injection("x")
			in.HostMounts = []specs.Mount{bind("/opt/data", "/hostpath/opt/data", "ro")}
			change(&in)
			spec := container(bind(p.models, "/own", "rw"))
			inject(t, spec, in)
			want(t, spec, nil, bind(p.models, "/own", "ro"))
		})
	}
}

func TestAVariableOfTheUsersStays(t *testing.T) {
	p := newPod(t, "x")
	spec := container()
	spec.Process.Env = append(spec.Process.Env, "V0=mine", "V10=other")
	notes := inject(t, spec, p.injection("x", "x"))
	want(t, spec, []string{"V0=mine", "V10=other", "V1=/downloads/x"}, p.ours("/downloads", "ro"))
	if len(notes) != 1 || !strings.Contains(notes[0], "V0") || !strings.Contains(notes[0], "main") {
		t.Errorf("notes %q", notes)
	}
}

func TestTheValuesOfAVariableAreJoined(t *testing.T) {
	p := newPod(t, "x", "y")
	in := p.injection()
	in.Variables = []plan.Variable{{Name: "ALL", Mount: "m", Values: []plan.Value{
		{Download: "x"}, {Literal: plan.NewSecret("https://h/up?sig=s3cr3t")}, {Download: "y"},
	}}}
	spec := container()
	inject(t, spec, in)
	want(t, spec, []string{"ALL=/downloads/x;https://h/up?sig=s3cr3t;/downloads/y"}, p.ours("/downloads", "ro"))
	spec.Process.Env[1] = "ALL=mine"
	for _, note := range inject(t, spec, in) {
		if strings.Contains(note, "s3cr3t") {
			t.Errorf("the note shows the secret: %s", note)
		}
	}
}

func TestParentsAreMountedBeforeChildren(t *testing.T) {
	p := newPod(t, "x")
	in := p.injection("x")
	a, b, c := bind("/d/b", "/hostpath/a/b", "ro"), bind("/d", "/hostpath/a", "ro"), bind("/z", "/hostpath/z/y/x", "rw")
	in.HostMounts = []specs.Mount{c, a, b}
	spec := container()
	inject(t, spec, in)
	want(t, spec, []string{"V0=/downloads/x"}, p.ours("/downloads", "ro"), b, a, c)
}

func TestAPodWithoutDownloadsGetsHostPathsOnly(t *testing.T) {
	in := Injection{HostMounts: []specs.Mount{bind("/d", "/hostpath/d", "ro")}}
	spec := container()
	inject(t, spec, in)
	want(t, spec, nil, bind("/d", "/hostpath/d", "ro"))
}

func TestAnotherMountInTheWayIsAnError(t *testing.T) {
	p := newPod(t, "x")
	for name, destination := range map[string]string{
		"at the place": "/downloads", "below the place": "/downloads/cache", "above the place": "/", "written otherwise": "/downloads/./",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Inject(container(bind("/theirs", destination)), "main", p.injection("x"))
			if !errdefs.IsInvalidArgument(err) {
				t.Fatalf("error %v", err)
			}
			for _, part := range []string{"main", "/theirs", destination, "/downloads", "mount-path"} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("the error doesn't name %s: %v", part, err)
				}
			}
		})
	}
	if _, err := Inject(container(bind("/theirs", "/downloads-2")), "main", p.injection("x")); err != nil {
		t.Errorf("a name that only begins alike: %v", err)
	}
}

func TestALinkInTheVolumeLeadsNoSubPathOut(t *testing.T) {
	p := newPod(t, "x/")
	outside := t.TempDir()
	makeTree(t, outside, "secret")
	if err := os.Symlink(outside, filepath.Join(p.models, "out")); err != nil {
		t.Fatal(err)
	}
	sub := p.subPath(t, 0, "x")
	if _, err := Inject(container(bind(sub, "/s")), "main", p.injection("out/secret")); err == nil {
		t.Error("followed a link out of the volume")
	}
}

func TestASpecWithoutAProcessGetsItsVariables(t *testing.T) {
	p := newPod(t, "x")
	spec := &specs.Spec{}
	inject(t, spec, p.injection("x"))
	if diff := cmp.Diff([]string{"V0=/downloads/x"}, spec.Process.Env); diff != "" {
		t.Error(diff)
	}
}
