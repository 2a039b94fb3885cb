// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/google/go-cmp/cmp"
	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/shim/v1/utils"
)

// node is a kubelet root with emptyDirs of our pod; names as for makeTree.
func node(t *testing.T, emptyDirs ...string) (n Node, dir func(name string) string) {
	t.Helper()
	noOtherRoots(t)
	root := kubelet(t, "kubelet")
	parent := filepath.Join(root, "pods", ownUID, "volumes", emptyDirPlugin)
	makeTree(t, parent, emptyDirs...)
	return Node{KubeletRoot: root}, func(name string) string { return filepath.Join(parent, name) }
}

// mountTmpfs makes the emptyDir at path one of medium Memory.
func mountTmpfs(t *testing.T, path, options string) {
	t.Helper()
	if err := unix.Mount("tmpfs", path, "tmpfs", 0, options); err != nil {
		t.Skipf("needs the privilege to mount, as kubelet does for medium Memory: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(path, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}

// sandboxOf is a sandbox's spec with the pod's annotations.
func sandboxOf(annotations map[string]string) *specs.Spec {
	spec := &specs.Spec{Annotations: map[string]string{
		utils.ContainerTypeAnnotation: "sandbox",
		logDirectory:                  "/var/log/pods/ns_pod_" + ownUID,
	}}
	for key, value := range annotations {
		spec.Annotations[key] = value
	}
	return spec
}

// containerOf is a container's spec of the same pod.
func containerOf(annotations map[string]string, mounts ...specs.Mount) *specs.Spec {
	spec := sandboxOf(annotations)
	spec.Annotations[utils.ContainerTypeAnnotation] = "container"
	spec.Annotations[containerName] = "main"
	spec.Mounts = mounts
	return spec
}

// decide decides, passes the decisions through JSON as the pod's record does,
// and applies them to the sandbox.
func decide(t *testing.T, spec *specs.Spec, n Node, download string) (Decisions, []string) {
	t.Helper()
	d, notes, err := Decide(spec, locate(t, spec, n), n, download)
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	var record Decisions
	if err := json.Unmarshal(data, &record); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(d, record); diff != "" {
		t.Errorf("the record holds something else: %s", diff)
	}
	record.ApplySandbox(spec)
	after, err := theirs(spec, record.PodsDir)
	if err != nil {
		t.Fatalf("gVisor fails on it: %v", err)
	}
	if diff := cmp.Diff(text(spec), text(after)); diff != "" {
		t.Errorf("gVisor changes the sandbox: %s", diff)
	}
	return record, notes
}

// apply applies the decisions to a container.
func apply(t *testing.T, d Decisions, spec *specs.Spec) []string {
	t.Helper()
	notes, err := d.ApplyContainer(spec)
	if err != nil {
		t.Fatal(err)
	}
	after, err := theirs(spec, d.PodsDir)
	if err != nil {
		t.Fatalf("gVisor fails on it: %v", err)
	}
	if diff := cmp.Diff(text(spec), text(after)); diff != "" {
		t.Errorf("gVisor changes the container: %s", diff)
	}
	return notes
}

// hintFields are the fields of a volume's hint, sorted: "share=pod type=tmpfs".
func hintFields(spec *specs.Spec, name string) string {
	var out []string
	for _, field := range []string{"options", "share", "source", "type"} {
		if value, ok := spec.Annotations[hintKey(name, field)]; ok {
			if field == "source" {
				value = filepath.Base(value)
			}
			out = append(out, field+"="+value)
		}
	}
	return strings.Join(out, " ")
}

// The matrix of what a pod may write for an emptyDir, its contents, and what
// the sandbox and a container then get: google/gvisor#14033, #8275 (one side
// wrong changes the medium), #13595 (downloads hidden by runsc's tmpfs).
func TestHintsAndMountsAgree(t *testing.T) {
	for _, kind := range []string{"tmpfs", "bind"} {
		for _, share := range []string{"container", "pod", "shared"} {
			for _, test := range []struct {
				state, files, force, download string
				hint, mount                   string
			}{
				{"empty", "v/", "", "", "options=rw share=" + share + " source=v type=tmpfs", kind},
				{"an earlier sandbox's", "v/.gvisor.filestore.s0", "", "", "options=rw share=" + share + " source=v type=tmpfs", kind},
				{"not empty", "v/x", "", "", "options=rw share=shared source=v type=bind", "bind"},
				{"forced", "v/", "true", "", "options=rw share=shared source=v type=bind", "bind"},
				{"not forced", "v/", "false", "", "options=rw share=" + share + " source=v type=tmpfs", kind},
				{"a download's", "v/x", "", "v", "options=rw share=shared source=v type=bind", "bind"},
				{"an empty download's", "v/", "", "v", "options=rw share=shared source=v type=bind", "bind"},
				{"a download's, not forced", "v/x", "false", "v", "options=rw share=shared source=v type=bind", "bind"},
			} {
				t.Run(fmt.Sprint(kind, " ", share, " ", test.state), func(t *testing.T) {
					n, dir := node(t, test.files)
					annotations := map[string]string{hintKey("v", "type"): kind, hintKey("v", "share"): share, hintKey("v", "options"): "rw"}
					if test.force != "" {
						annotations[forceSharedKey("v")] = test.force
					}
					sandbox := sandboxOf(annotations)
					d, _ := decide(t, sandbox, n, test.download)
					if got := hintFields(sandbox, "v"); got != test.hint {
						t.Errorf("hint %q, want %q", got, test.hint)
					}
					spec := containerOf(annotations, bind(dir("v"), "/v", "rbind", "rprivate", "rw"))
					apply(t, d, spec)
					if got := spec.Mounts[0].Type; got != test.mount {
						t.Errorf("the mount is %s, want %s", got, test.mount)
					}
					if rbind := fmt.Sprint(spec.Mounts[0].Options); strings.Contains(rbind, "rbind") != (test.mount == "bind") {
						t.Errorf("the mount is %s with %s", test.mount, rbind)
					}
				})
			}
		}
	}
}

func TestHintsThatDoLittleAreWarnedOf(t *testing.T) {
	for _, test := range []struct{ kind, share, options, note string }{
		{"tmpfs", "pod", "rw,size=1024", ""},
		{"tmpfs", "container", "", ""},
		{"bind", "shared", "rw", ""},
		{"bind", "", "rw,nosuid", ""},
		{"bind", "pod", "rw,noexec", "option noexec"},
		{"tmpfs", "shared", "rw", "of its own"},
		{"tmpfs", "", "rw", "of its own"},
		{"ext4", "pod", "rw", "neither tmpfs nor bind"},
	} {
		n, _ := node(t, "v/")
		_, notes := decide(t, sandboxOf(map[string]string{
			hintKey("v", "type"): test.kind, hintKey("v", "share"): test.share, hintKey("v", "options"): test.options,
		}), n, "")
		if got := strings.Join(notes, "\n"); (got == "") != (test.note == "") || !strings.Contains(got, test.note) {
			t.Errorf("%s, %s, %s: %q", test.kind, test.share, test.options, got)
		}
	}
}

func TestADownloadVolumeWithoutAHintGetsOne(t *testing.T) {
	n, dir := node(t, "v/model")
	sandbox := sandboxOf(nil)
	d, _ := decide(t, sandbox, n, "v")
	if got := hintFields(sandbox, "v"); got != "share=shared source=v type=bind" {
		t.Errorf("hint %q", got)
	}
	spec := containerOf(nil, bind(dir("v"), "/v", "rbind"))
	apply(t, d, spec)
	if spec.Mounts[0].Type != "bind" {
		t.Errorf("mount %+v", spec.Mounts[0])
	}
}

func TestAHintThatADownloadOverrulesIsWarnedOf(t *testing.T) {
	for hint, want := range map[[2]string]int{{"tmpfs", "pod"}: 1, {"bind", "pod"}: 1, {"bind", "shared"}: 0} {
		n, _ := node(t, "v/model")
		annotations := map[string]string{hintKey("v", "type"): hint[0], hintKey("v", "share"): hint[1]}
		_, notes := decide(t, sandboxOf(annotations), n, "v")
		if len(notes) != want || want > 0 && !strings.Contains(notes[0], "receives downloads") {
			t.Errorf("hint %v: notes %q", hint, notes)
		}
	}
}

func TestGVisorLeavesAnInjectedMountAloneWhateverTheFolderHolds(t *testing.T) {
	n, dir := node(t, "v/") // gVisor takes it for its own to use
	annotations := map[string]string{hintKey("v", "type"): "tmpfs", hintKey("v", "share"): "pod"}
	d, _ := decide(t, sandboxOf(annotations), n, "v")
	spec := containerOf(annotations)
	apply(t, d, spec)
	if _, err := Inject(spec, "main", Injection{Volume: dir("v"), MountPath: "/downloads"}); err != nil {
		t.Fatal(err)
	}
	after, err := theirs(spec, d.PodsDir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(text(spec), text(after)); diff != "" {
		t.Error(diff)
	}
}

func TestADownloadVolumeThatIsMissingIsAnError(t *testing.T) {
	n, _ := node(t)
	spec := sandboxOf(nil)
	if _, _, err := Decide(spec, locate(t, spec, n), n, "gone"); !errdefs.IsNotFound(err) {
		t.Errorf("error %v", err)
	}
}

func TestTheHintsOfAnAbsentVolumeAreRemoved(t *testing.T) {
	n, _ := node(t)
	annotations := map[string]string{
		hintKey("gone", "type"): "tmpfs", hintKey("gone", "share"): "pod", hintKey("gone", "options"): "rw",
		hintKey("gone", "directfs"): "off", hintKey("gone2", "share"): "pod",
	}
	sandbox := sandboxOf(annotations)
	_, notes := decide(t, sandbox, n, "")
	for key := range sandbox.Annotations {
		if name, _, ok := hintOf(key); ok && name == "gone" {
			t.Errorf("%s stays", key)
		}
	}
	if sandbox.Annotations[hintKey("gone2", "share")] != "pod" {
		t.Error("another volume's hint is gone")
	}
	if len(notes) != 1 || !strings.Contains(notes[0], "pods/"+ownUID+"/volumes/*/gone") {
		t.Errorf("notes %q", notes)
	}
}

func TestVolumesOfOtherKindsGetTheirSourceOnly(t *testing.T) {
	n, _ := node(t)
	sandbox := sandboxOf(map[string]string{hintKey("settings", "type"): "bind", hintKey("settings", "share"): "pod"})
	decide(t, sandbox, n, "")
	if got := hintFields(sandbox, "settings"); got != "share=pod source=settings type=bind" {
		t.Errorf("hint %q", got)
	}
}

func TestTheGCSFuseVolumeMayUseItsSocket(t *testing.T) {
	n, dir := node(t, gcsFuseVolume+"/socket")
	annotations := map[string]string{hintKey(gcsFuseVolume, "type"): "bind"}
	sandbox := sandboxOf(annotations)
	d, _ := decide(t, sandbox, n, "")
	with, without := containerOf(annotations, bind(dir(gcsFuseVolume), "/v")), containerOf(annotations)
	apply(t, d, with)
	apply(t, d, without)
	if sandbox.Annotations[hostUDS] != "open" || with.Annotations[hostUDS] != "open" || without.Annotations[hostUDS] != "" {
		t.Errorf("sandbox %q, with %q, without %q", sandbox.Annotations[hostUDS], with.Annotations[hostUDS], without.Annotations[hostUDS])
	}
}

// google/gvisor#11326: nobody writes hints on a cluster of one's own.
func TestAutoHintsTellWhatTheFolderIsLike(t *testing.T) {
	n, dir := node(t, "disk/", "memory/", "full/x", "forced/", "byhand/", "models/")
	n.AutoHint = true
	mountTmpfs(t, dir("memory"), "size=16m,mode=2777,gid=2000")
	for _, name := range []string{"disk", "models"} {
		if err := os.Chown(dir(name), 1000, 3000); err != nil {
			t.Fatal(err)
		}
		if err := unix.Chmod(dir(name), 0o2770); err != nil {
			t.Fatal(err)
		}
	}
	annotations := map[string]string{forceSharedKey("forced"): "true", hintKey("byhand", "type"): "bind", hintKey("byhand", "share"): "container"}
	sandbox := sandboxOf(annotations)
	d, _ := decide(t, sandbox, n, "models")
	size, _, err := sizeOf(dir("disk"))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"disk":     fmt.Sprintf("options=rw,size=%d,", size) + "mode=2770,uid=1000,gid=3000 share=pod source=disk type=tmpfs",
		"memory":   "options=rw,size=16777216,mode=2777,uid=0,gid=2000 share=pod source=memory type=tmpfs",
		"full":     "",
		"forced":   "",
		"byhand":   "share=container source=byhand type=tmpfs",
		"models":   "share=shared source=models type=bind",
		"settings": "",
	} {
		if got := hintFields(sandbox, name); got != want {
			t.Errorf("%s: hint %q, want %q", name, got, want)
		}
	}
	spec := containerOf(annotations)
	for _, name := range []string{"disk", "memory", "full", "forced", "byhand", "models"} {
		spec.Mounts = append(spec.Mounts, bind(dir(name), "/"+name, "rbind", "ro"))
	}
	apply(t, d, spec)
	for i, want := range []string{"bind", "tmpfs", "bind", "bind", "bind", "bind"} {
		if got := spec.Mounts[i]; got.Type != want {
			t.Errorf("%s is %s, want %s", got.Destination, got.Type, want)
		}
	}
}

func TestAutoHintsLeaveFileSystemsOfOtherKindsAlone(t *testing.T) {
	n, dir := node(t, "pages/")
	n.AutoHint = true
	if err := unix.Mount("ramfs", dir("pages"), "ramfs", 0, ""); err != nil { // for hugetlbfs, which not every kernel has
		t.Skipf("needs the privilege to mount: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir("pages"), unix.MNT_DETACH) })
	sandbox := sandboxOf(nil)
	decide(t, sandbox, n, "")
	if got := hintFields(sandbox, "pages"); got != "" {
		t.Errorf("hint %q", got)
	}
}

func TestAutoHintsKeepWhatThePodWrote(t *testing.T) {
	n, _ := node(t, "v/")
	n.AutoHint = true
	sandbox := sandboxOf(map[string]string{hintKey("v", "share"): "container", hintKey("v", "options"): "rw,noexec"})
	decide(t, sandbox, n, "")
	if got := hintFields(sandbox, "v"); got != "options=rw,noexec share=container source=v type=tmpfs" {
		t.Errorf("hint %q", got)
	}
}

func subPathOf(n Node, volume string) string {
	return filepath.Join(n.KubeletRoot, "pods", ownUID, "volume-subpaths", volume, "main", "0")
}

// kata-containers/kata-containers#12218, google/gvisor#11345: a subPath silently
// shows other files than the volume.
func TestASubPathOfAVolumeInsideTheSandboxIsRefusedInAutoMode(t *testing.T) {
	n, _ := node(t, "v/", "w/", "full/x")
	n.AutoHint = true
	annotations := map[string]string{hintKey("w", "type"): "tmpfs", hintKey("w", "share"): "pod"}
	d, _ := decide(t, sandboxOf(annotations), n, "")
	for _, name := range []string{"v", "w"} {
		_, err := d.ApplyContainer(containerOf(annotations, bind(subPathOf(n, name), "/part", "rbind")))
		if !errdefs.IsInvalidArgument(err) {
			t.Fatalf("error %v", err)
		}
		for _, part := range []string{`"main"`, `"` + name + `"`, "subPath", "/part", "dev.gvisor.empty-dir." + name + `.force-shared: "true"`} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("the error lacks %s: %v", part, err)
			}
		}
	}
	for _, name := range []string{"full", "unknown"} {
		apply(t, d, containerOf(nil, bind(subPathOf(n, name), "/part", "rbind")))
	}
}

func TestASubPathOfAHintedVolumeIsWarnedOfInAnnotatedMode(t *testing.T) {
	n, _ := node(t, "v/")
	annotations := map[string]string{hintKey("v", "type"): "bind", hintKey("v", "share"): "pod"}
	d, _ := decide(t, sandboxOf(annotations), n, "")
	spec := containerOf(annotations, bind(subPathOf(n, "v"), "/part", "rbind"))
	before := text(spec)
	notes := apply(t, d, spec)
	if len(notes) != 1 || !strings.Contains(notes[0], "subPath") || text(spec) != before {
		t.Errorf("notes %q", notes)
	}
}

func TestContainersFollowTheSandboxWhateverHasChangedSince(t *testing.T) {
	n, dir := node(t, "a/", "b/x", "c/")
	annotations := map[string]string{hintKey("a", "type"): "tmpfs", hintKey("b", "type"): "tmpfs"}
	d, _ := decide(t, sandboxOf(annotations), n, "")
	makeTree(t, dir("a"), "made-for-a-subpath/")
	if err := os.Remove(filepath.Join(dir("b"), "x")); err != nil {
		t.Fatal(err)
	}
	annotations[hintKey("a", "type")] = "bind" // edited on the running pod
	annotations[hintKey("c", "type")] = "tmpfs"
	spec := containerOf(annotations, bind(dir("a"), "/a"), bind(dir("b"), "/b"), bind(dir("c"), "/c"))
	notes := apply(t, d, spec)
	for i, want := range []string{"tmpfs", "bind", "bind"} {
		if got := spec.Mounts[i]; got.Type != want {
			t.Errorf("%s is %s, want %s", got.Destination, got.Type, want)
		}
	}
	if len(notes) != 1 || !strings.Contains(notes[0], hintKey("c", "type")) {
		t.Errorf("notes %q", notes)
	}
}

func TestAnotherPodsVolumeOfTheSameNameIsLeftAlone(t *testing.T) {
	n, dir := node(t, "v/")
	foreign := strings.Replace(dir("v"), ownUID, otherUID, 1)
	makeTree(t, foreign, "./")
	annotations := map[string]string{hintKey("v", "type"): "tmpfs"}
	d, _ := decide(t, sandboxOf(annotations), n, "")
	spec := containerOf(annotations, bind(foreign, "/foreign", "rbind", "rw"), bind(dir("v"), "/v"))
	apply(t, d, spec)
	if diff := cmp.Diff(bind(foreign, "/foreign", "rbind", "rw"), spec.Mounts[0]); diff != "" {
		t.Error(diff)
	}
	if spec.Mounts[1].Type != "tmpfs" {
		t.Errorf("ours is %s", spec.Mounts[1].Type)
	}
}

func TestARootBehindALinkWorksInBothSpellings(t *testing.T) {
	n, dir := node(t, "v/")
	real := n.KubeletRoot
	n.KubeletRoot = filepath.Join(t.TempDir(), "link")
	link(t, real, n.KubeletRoot)
	annotations := map[string]string{hintKey("v", "type"): "tmpfs", hintKey("v", "share"): "pod"}
	sandbox := sandboxOf(annotations)
	d, _ := decide(t, sandbox, n, "")
	if got := sandbox.Annotations[hintKey("v", "source")]; got != dir("v") {
		t.Errorf("source %s", got)
	}
	linked := strings.Replace(dir("v"), real, n.KubeletRoot, 1)
	spec := containerOf(annotations, bind(dir("v"), "/v"), bind(linked, "/linked"))
	apply(t, d, spec)
	for _, m := range spec.Mounts {
		if m.Source != dir("v") || m.Type != "tmpfs" {
			t.Errorf("%+v", m)
		}
	}
}

// openkruise/agents#698.
func TestBidirectionalPropagationIsExplained(t *testing.T) {
	n, dir := node(t, "v/")
	d, _ := decide(t, sandboxOf(nil), n, "")
	_, err := d.ApplyContainer(containerOf(nil, bind(dir("v"), "/v", "rbind", "rshared", "rw")))
	for _, part := range []string{`"main"`, dir("v"), "/v", "rshared", "Bidirectional"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("the error lacks %s: %v", part, err)
		}
	}
}

func TestAPodWithoutAUIDKeepsItsMountsAndIsTold(t *testing.T) {
	n, dir := node(t, "v/")
	annotations := map[string]string{hintKey("v", "type"): "tmpfs"}
	sandbox := sandboxOf(annotations)
	delete(sandbox.Annotations, logDirectory)
	v, err := Locate(sandbox, "", n)
	if err != nil {
		t.Fatal(err)
	}
	before := text(sandbox)
	d, notes, err := Decide(sandbox, v, n, "")
	if err != nil || len(notes) != 1 || !strings.Contains(notes[0], "uid") {
		t.Errorf("notes %q, error %v", notes, err)
	}
	if d.ApplySandbox(sandbox) || text(sandbox) != before {
		t.Errorf("the sandbox became %s", text(sandbox))
	}
	spec := containerOf(annotations, bind(dir("v"), "/v"))
	apply(t, d, spec)
	if spec.Mounts[0].Type != "bind" {
		t.Errorf("mount %+v", spec.Mounts[0])
	}
}

// gVisor's rewrite knows containerd's annotations only: it takes all that CRI-O
// makes for sandboxes.
func TestCRIOsPodsAreDoneInFull(t *testing.T) {
	n, dir := node(t, "v/")
	hints := map[string]string{hintKey("v", "type"): "tmpfs", hintKey("v", "share"): "pod"}
	crio := func(spec *specs.Spec, kind string) *specs.Spec {
		delete(spec.Annotations, utils.ContainerTypeAnnotation)
		delete(spec.Annotations, logDirectory)
		spec.Annotations["io.kubernetes.cri-o.ContainerType"] = kind
		spec.Mounts = append(spec.Mounts, runtimeShm)
		return spec
	}
	sandbox := crio(sandboxOf(hints), "sandbox")
	d, _ := decide(t, sandbox, n, "")
	if hintFields(sandbox, "v") != "share=pod source=v type=tmpfs" || hintFields(sandbox, shmName) != "options=rw share=pod source=shm type=tmpfs" {
		t.Errorf("annotations %v", sandbox.Annotations)
	}
	for _, annotations := range []map[string]string{hints, nil} {
		spec := crio(containerOf(annotations, bind(dir("v"), "/v")), "container")
		apply(t, d, spec)
		if spec.Mounts[0].Type != "tmpfs" || spec.Mounts[1].Type != "tmpfs" {
			t.Errorf("mounts %v", spec.Mounts)
		}
	}
}
