// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"slices"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/google/go-cmp/cmp"
	specs "github.com/opencontainers/runtime-spec/specs-go"
)

var (
	runtimeShm = bind("/run/sandboxes/s1/shm", shmPath, "rbind", "ro", "nosuid", "nodev", "noexec", "mode=1777", "size=65536k")
	defaultShm = specs.Mount{Destination: shmPath, Type: "tmpfs", Source: "shm", Options: []string{"nosuid", "noexec", "nodev", "mode=1777"}}
)

func TestTheRuntimesShmIsMemoryWithItsOptions(t *testing.T) {
	n, _ := node(t)
	d, _ := decide(t, sandboxOf(nil), n, "")
	spec := containerOf(nil, defaultShm, runtimeShm)
	apply(t, d, spec)
	want := specs.Mount{Destination: shmPath, Type: "tmpfs", Source: runtimeShm.Source, Options: runtimeShm.Options[1:]}
	if diff := cmp.Diff([]specs.Mount{want}, spec.Mounts); diff != "" {
		t.Error(diff)
	}
}

func TestTheSandboxsShmIsHintedOnceByWhoeverCan(t *testing.T) {
	n, _ := node(t)
	for _, gvisorKnowsUID := range []bool{true, false} {
		spec := sandboxOf(nil)
		spec.Mounts = []specs.Mount{runtimeShm}
		if !gvisorKnowsUID {
			delete(spec.Annotations, logDirectory)
		}
		d, _, err := Decide(spec, locate(t, spec, n), n, "")
		if err != nil {
			t.Fatal(err)
		}
		d.ApplySandbox(spec)
		if ours := spec.Mounts[0].Type == "tmpfs"; ours == gvisorKnowsUID {
			t.Errorf("gVisor knows the uid: %t, done by us: %t", gvisorKnowsUID, ours)
		}
		after, err := theirs(spec, d.PodsDir)
		if err != nil {
			t.Fatal(err)
		}
		if got := hintFields(after, shmName); got != "options=rw share=pod source=shm type=tmpfs" || after.Mounts[0].Type != "tmpfs" {
			t.Errorf("hint %q, mount %+v", got, after.Mounts[0])
		}
	}
}

func TestAPodsOwnShmWins(t *testing.T) {
	n, dir := node(t, "shm/")
	mountTmpfs(t, dir("shm"), "size=256m")
	own := bind(dir("shm"), shmPath, "rbind", "rprivate", "rw")
	for name, mounts := range map[string][]specs.Mount{
		"alone":                   {own},
		"before the runtime's":    {own, runtimeShm},
		"after the runtime's":     {runtimeShm, own},
		"among all":               {defaultShm, runtimeShm, own},
		"written in another form": {bind(dir("shm"), shmPath+"/", "rbind", "rprivate", "rw"), runtimeShm},
	} {
		for _, auto := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				n.AutoHint = auto
				d, _ := decide(t, sandboxOf(nil), n, "")
				spec := containerOf(nil, slices.Clone(mounts)...)
				apply(t, d, spec)
				want := []specs.Mount{{
					Destination: shmPath, Type: "tmpfs", Source: dir("shm"),
					Options: []string{"rprivate", "rw", "nosuid", "nodev", "noexec", "mode=1777", "size=268435456"},
				}}
				if diff := cmp.Diff(want, spec.Mounts); diff != "" {
					t.Error(diff)
				}
				before := text(spec)
				if apply(t, d, spec); text(spec) != before {
					t.Errorf("a second run changed it to %s", text(spec))
				}
			})
		}
	}
}

func TestAForeignVolumeAtShmDoesNotWin(t *testing.T) {
	n, dir := node(t, "shm/")
	foreign := strings.Replace(dir("shm"), ownUID, otherUID, 1)
	d, _ := decide(t, sandboxOf(nil), n, "")
	spec := containerOf(nil, bind(foreign, shmPath, "rbind"))
	apply(t, d, spec)
	if diff := cmp.Diff([]specs.Mount{{Destination: shmPath, Type: "tmpfs", Source: foreign, Options: []string{}}}, spec.Mounts); diff != "" {
		t.Error(diff)
	}
}

func TestDownloadsCannotBeMountedAtShm(t *testing.T) {
	n, dir := node(t, "models/x")
	d, _ := decide(t, sandboxOf(nil), n, "models")
	for _, source := range []string{dir("models"), subPathOf(n, "models")} {
		_, err := d.ApplyContainer(containerOf(nil, bind(source, shmPath)))
		if !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), `"models"`) || !strings.Contains(err.Error(), "main") {
			t.Errorf("error %v", err)
		}
	}
}
