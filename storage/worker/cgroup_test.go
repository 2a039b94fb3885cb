// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestThePodsGroupIsFoundInEveryFormOfItsPath(t *testing.T) {
	for path, want := range map[string]string{
		"/kubepods/burstable/pod1/box": "/kubepods/burstable/pod1",
		"kubepods/pod1/box":            "/kubepods/pod1",
		"/kubepods/../../../etc/box":   "/etc",
		"/box":                         "",
		"":                             "",
		"/":                            "",
		"kubepods-burstable-pod1_2.slice:cri-containerd:box": "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1_2.slice",
		"kubelet-kubepods-pod1.slice:crio:box":               "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod1.slice",
		"system.slice:cri-containerd:box":                    "/system.slice",
		"-.slice:cri-containerd:box":                         "",
		":cri-containerd:box":                                "",
		"a--b.slice:cri-containerd:box":                      "",
		"../x.slice:cri-containerd:box":                      "",
		"/kubepods/besteffort/poda-b_c:not-systemd/box":      "/kubepods/besteffort/poda-b_c:not-systemd",
	} {
		if got := podGroup(path); got != want {
			t.Errorf("%q: got %q, want %q", path, got, want)
		}
	}
}

func TestAGroupHasAPlainName(t *testing.T) {
	for _, id := range []string{"", "a/b", "../x"} {
		if _, err := NewGroup(t.TempDir(), "", id); err == nil {
			t.Errorf("%q is taken for a name", id)
		}
	}
}

func TestAMemoryVolumeComesOnTopOfTheLimit(t *testing.T) {
	dir := t.TempDir()
	if got := (Bounds{Memory: 100}).ForVolume(dir); got.Memory != 100 && !onTmpfs(dir) {
		t.Errorf("on a disk: %+v", got)
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64m"); err != nil {
		t.Skipf("no tmpfs to be had: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, 0) })
	if got := (Bounds{Memory: 100}).ForVolume(dir); got.Memory != 100+64<<20 {
		t.Errorf("64 MiB in memory: %+v", got)
	}
	if got := (Bounds{}).ForVolume(dir); got.Memory != 0 {
		t.Errorf("no limit: %+v", got)
	}
}

func onTmpfs(dir string) bool {
	var st unix.Statfs_t
	return unix.Statfs(dir, &st) == nil && st.Type == unix.TMPFS_MAGIC
}

// pod makes a pod's group as kubelet does, and returns the cgroupsPath of its
// sandbox and the folders of the pod's group.
func pod(t *testing.T) (cgroupsPath string, dirs []string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("control groups need root")
	}
	name := fmt.Sprintf("sedna-test-%d-%s", os.Getpid(), filepath.Base(t.Name()))
	roots := []string{CgroupRoot}
	if _, err := os.Stat(filepath.Join(CgroupRoot, controllersFile)); err != nil {
		roots = []string{filepath.Join(CgroupRoot, "memory"), filepath.Join(CgroupRoot, "cpu")}
	} else {
		// As systemd or kubelet set a node up.
		if err := enable(CgroupRoot, disabled(CgroupRoot)); err != nil {
			t.Skipf("no controllers to be had: %v", err)
		}
	}
	for _, root := range roots {
		dir := filepath.Join(root, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Skipf("no control group to be had: %v", err)
		}
		t.Cleanup(func() {
			if err := os.Remove(dir); err != nil {
				t.Errorf("the pod's group: %v", err)
			}
		})
		dirs = append(dirs, dir)
	}
	return "/" + name + "/box", dirs
}

// made makes a worker's group for the test.
func made(t *testing.T, cgroupsPath string, b Bounds) *Group {
	t.Helper()
	g, err := NewGroup(CgroupRoot, cgroupsPath, fmt.Sprintf("box-%d", os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Remove(); err != nil {
			t.Error(err)
		}
		for _, dir := range g.Dirs {
			if isDir(dir) {
				t.Errorf("%s is left", dir)
			}
		}
	})
	lacks, err := g.Make(b)
	if err != nil {
		t.Fatal(err)
	}
	if len(lacks) > 0 {
		t.Errorf("the group lacks: %v", lacks)
	}
	return g
}

// limits reads what is in force, in either version's files.
func limits(g *Group) map[string]string {
	got := map[string]string{}
	for _, dir := range g.Dirs {
		for _, file := range []string{"memory.limit_in_bytes", "cpu.cfs_quota_us", "memory.max", "cpu.max"} {
			if w := words(dir, file); len(w) > 0 {
				got[strings.SplitN(file, ".", 2)[0]] = w[0]
			}
		}
	}
	return got
}

func TestAGroupLimitsMemoryAndCPU(t *testing.T) {
	path, dirs := pod(t)
	g := made(t, path, Bounds{Memory: 64 << 20, CPU: 1500})
	if got := limits(g); got["memory"] != "67108864" || got["cpu"] != "150000" {
		t.Errorf("limits are %v", got)
	}
	if !strings.HasPrefix(g.Dirs[0], dirs[0]+"/") {
		t.Errorf("the group %s isn't below the pod's %s", g.Dirs[0], dirs[0])
	}
}

func TestAPodWithLessCPUKeepsItsOwnLimit(t *testing.T) {
	path, dirs := pod(t)
	for _, dir := range dirs {
		_ = writeFile(dir, "cpu.cfs_quota_us", "50000")
		_ = writeFile(dir, "cpu.max", "50000 100000")
	}
	made(t, path, Bounds{CPU: 1000})
}

func TestWithoutAPodsGroupThereIsOneOfTheNode(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("control groups need root")
	}
	g := made(t, "/no-such-pod/box", Bounds{Memory: 64 << 20, CPU: 1000})
	if filepath.Base(filepath.Dir(g.Dirs[0])) != ownParent {
		t.Errorf("the group is %s", g.Dirs[0])
	}
	if got := limits(g); got["memory"] != "67108864" || got["cpu"] != "100000" {
		t.Errorf("limits are %v", got)
	}
}

func TestWithoutControlGroupsMakeSaysWhy(t *testing.T) {
	g, err := NewGroup(t.TempDir(), "/pod/box", "box")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Make(Bounds{Memory: 1 << 20}); err == nil || !strings.Contains(err.Error(), "the controller isn't there") {
		t.Errorf("got %v", err)
	}
	if err := g.Add(os.Getpid()); err == nil {
		t.Error("a group that isn't there takes a process")
	}
	if err := g.Remove(); err != nil {
		t.Error(err)
	}
}

// hog takes memory and never gives it back.
func hog(bytes int) {
	block := make([]byte, bytes)
	for i := 0; i < len(block); i += 4096 {
		block[i] = 1
	}
	fmt.Fprintln(os.Stderr, "took it all", block[0])
}

func TestAWorkerAboveItsMemoryIsEndedAlone(t *testing.T) {
	for _, tt := range []struct {
		name       string
		own, pods  int64
		wantLimit  int64
		wantPodsIs bool
	}{
		{"the worker's own limit", 48 << 20, 0, 48 << 20, false},
		{"the pod's lower limit", 128 << 20, 48 << 20, 48 << 20, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path, dirs := pod(t)
			if tt.pods > 0 {
				value := fmt.Sprint(tt.pods)
				if writeFile(dirs[0], "memory.limit_in_bytes", value) != nil {
					if err := writeFile(dirs[0], "memory.max", value); err != nil {
						t.Fatal(err)
					}
				}
				_ = writeFile(dirs[0], "memory.swap.max", "0")
			}
			g := made(t, path, Bounds{Memory: tt.own})
			c := command(t)
			c.Started = g.Add
			_, err := c.Run(t.Context(), request(t, "hog"), nil)
			if err == nil || !strings.Contains(err.Error(), "SIGKILL") {
				t.Errorf("got %v, want it killed", err)
			}
			if took := g.Usage(); took.Memory < 40<<20 || took.Memory > 2*tt.own { // one that ends gets a page more
				t.Errorf("it took %d bytes at most", took.Memory)
			}
			limit, pods, starved := g.Starved()
			if !starved || limit != tt.wantLimit || pods != tt.wantPodsIs {
				t.Errorf("starved is %v at %d, the pod's %v", starved, limit, pods)
			}
		})
	}
}

func TestAWorkerKilledForAnotherReasonIsNotStarved(t *testing.T) {
	path, _ := pod(t)
	g := made(t, path, Bounds{Memory: 256 << 20})
	c := command(t)
	c.Started = g.Add
	if _, err := c.Run(t.Context(), request(t, "killed"), nil); err == nil {
		t.Error("the worker wasn't killed")
	}
	if _, _, starved := g.Starved(); starved {
		t.Error("it is said to have wanted memory")
	}
}

func TestAGroupIsRemovedByAnotherProcessWithWhatIsLeftInIt(t *testing.T) {
	path, dirs := pod(t)
	g := made(t, path, Bounds{Memory: 256 << 20, CPU: 1000})
	left := exec.Command("sleep", "300")
	if err := left.Start(); err != nil {
		t.Fatal(err)
	}
	if err := g.Add(left.Process.Pid); err != nil {
		t.Fatal(err)
	}
	bystander := exec.CommandContext(t.Context(), "sleep", "300")
	if err := bystander.Start(); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(g)
	if err != nil {
		t.Fatal(err)
	}
	var again Group
	if err := json.Unmarshal(text, &again); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- left.Wait() }()
	for range 2 {
		if err := again.Remove(); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-ended; err == nil {
		t.Error("what was left in the group ended by itself")
	}
	if err := bystander.Process.Signal(unix.Signal(0)); err != nil {
		t.Errorf("a process of no group of ours: %v", err)
	}
	_ = bystander.Process.Kill()
	_ = bystander.Wait()
	if on := words(dirs[0], subtreeFile); len(on) > 0 {
		t.Errorf("the pod's group still has %v on: its sandbox couldn't join", on)
	}
}

func TestNoStrangersGroupIsRemoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "kubepods")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, "sedna-storage-relative"} {
		if err := (&Group{Dirs: []string{path}}).Remove(); err == nil {
			t.Errorf("%s is taken for ours", path)
		}
	}
	if !isDir(dir) {
		t.Error("it's gone")
	}
}

func TestAWorkerIsInItsGroupBeforeItsRequest(t *testing.T) {
	path, _ := pod(t)
	g := made(t, path, Bounds{Memory: 256 << 20})
	c := command(t)
	var pid int
	c.Started = func(p int) error { pid = p; return g.Add(p) }
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var in string
	_, _ = c.Run(ctx, request(t, "until stdin ends"), func(Event) {
		in = procFile(pid, "cgroup")
		cancel()
	})
	if !slices.ContainsFunc(strings.Split(in, "\n"), func(line string) bool {
		return strings.HasSuffix(line, filepath.Dir(path)+"/"+filepath.Base(g.Dirs[0]))
	}) {
		t.Errorf("the worker is in\n%s", in)
	}
}
