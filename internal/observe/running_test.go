// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sedna-io/containerd-shim-sedna/storage/worker"
)

func testNode(t *testing.T) Node {
	return Node{Run: filepath.Join(t.TempDir(), "run"), State: filepath.Join(t.TempDir(), "state")}
}

func example(t *testing.T, sandbox string) Running {
	t.Helper()
	self, err := Self()
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2020, 11, 30, 12, 0, 0, 0, time.UTC)
	return Running{
		Pod: worker.Pod{Namespace: "ns", Name: "pod", UID: "uid"}, Sandbox: sandbox, Mounts: []string{"model"},
		Process: self, Since: now, Updated: now, Progress: worker.Progress{Bytes: 1, Total: 2, Item: "https://h/m"},
	}
}

func write(t *testing.T, n Node, r Running) {
	t.Helper()
	if err := n.Write(r); err != nil {
		t.Fatal(err)
	}
}

func TestARunningDownloadIsListedUntilItIsRemoved(t *testing.T) {
	n := testNode(t)
	if all, err := n.Downloads(); err != nil || all != nil {
		t.Errorf("before the first: %v, %v", all, err)
	}
	later, first := example(t, "b"), example(t, "a")
	later.Since = later.Since.Add(time.Second)
	write(t, n, later)
	write(t, n, first)
	first.Progress.Bytes = 2
	write(t, n, first) // an update
	all, err := n.Downloads()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Running{first, later}, all); diff != "" {
		t.Errorf("listed otherwise (-want +got):\n%s", diff)
	}
	for _, sandbox := range []string{"a", "b", "never"} {
		if err := n.Remove(sandbox); err != nil {
			t.Error(err)
		}
	}
	isEmpty(t, n.Run)
}

func isEmpty(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left in %s: %v, %v", dir, left, err)
	}
}

func TestOthersCantReadRecords(t *testing.T) {
	n := testNode(t)
	write(t, n, example(t, "a"))
	for path, want := range map[string]os.FileMode{n.Run: 0o700 | os.ModeDir, filepath.Join(n.Run, "a.json"): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode() != want {
			t.Errorf("%s has mode %v, %v", path, info.Mode(), err)
		}
	}
}

func TestTheRecordOfADeadProcessIsSwept(t *testing.T) {
	self := example(t, "").Process
	reused, elsewhere := self, self
	reused.Start = "1"
	elsewhere.Start, elsewhere.Space = "1", "pid:[1]"
	for name, tt := range map[string]struct {
		process func(*testing.T) Process
		swept   bool
	}{
		"that was reaped":                    {deadProcess(self, true), true},
		"that is a zombie":                   {deadProcess(self, false), true},
		"whose pid another has":              {func(*testing.T) Process { return reused }, true},
		"or not, if it can't be seen there":  {func(*testing.T) Process { return elsewhere }, false},
		"or not, if the process is this one": {func(*testing.T) Process { return self }, false},
	} {
		t.Run(name, func(t *testing.T) {
			n := testNode(t)
			r := example(t, "a")
			r.Process = tt.process(t)
			write(t, n, r)
			all, err := n.Downloads()
			if err != nil || len(all) == 1 == tt.swept {
				t.Errorf("listed: %v, %v", all, err)
			}
			if tt.swept {
				isEmpty(t, n.Run)
			}
		})
	}
}

// deadProcess makes a process that has ended, and was reaped or wasn't.
func deadProcess(self Process, reaped bool) func(t *testing.T) Process {
	return func(t *testing.T) Process {
		cmd := exec.Command("cat") // until its input ends
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		p := Process{Space: self.Space}
		if p.Process, err = worker.ProcessOf(cmd.Process.Pid); err != nil {
			t.Fatal(err)
		}
		_ = in.Close()
		if reaped {
			_ = cmd.Wait()
			return p
		}
		t.Cleanup(func() { _ = cmd.Wait() })
		_, _ = out.Read(make([]byte, 1)) // its end
		for p.Runs() {
			runtime.Gosched() // it has closed its output and is about to go
		}
		return p
	}
}

func TestTheRecordOfAShimThatHasJustDiedIsLeftToDelete(t *testing.T) {
	n := testNode(t)
	r := example(t, "a")
	r.Process.Start, r.Updated = "1", time.Now()
	write(t, n, r)
	if all, err := n.Downloads(); err != nil || len(all) > 0 {
		t.Errorf("listed: %v, %v", all, err)
	}
	if got, err := n.TakeDead("a"); err != nil || got == nil {
		t.Errorf("delete finds %v, %v", got, err)
	}
}

func TestHalfAFileIsSweptOnceNobodyWritesOnIt(t *testing.T) {
	n := testNode(t)
	write(t, n, example(t, "a"))
	half := filepath.Join(n.Run, ".b.json.tmp")
	if err := os.WriteFile(half, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Downloads(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(half); err != nil {
		t.Error("a file that may still be written is gone")
	}
	before := time.Now().Add(-2 * abandoned)
	if err := os.Chtimes(half, before, before); err != nil {
		t.Fatal(err)
	}
	if all, err := n.Downloads(); err != nil || len(all) != 1 {
		t.Errorf("listed: %v, %v", all, err)
	}
	if _, err := os.Stat(half); err == nil {
		t.Error("it was never swept")
	}
}

func TestABrokenRecordHidesNoOther(t *testing.T) {
	n := testNode(t)
	write(t, n, example(t, "a"))
	if err := os.WriteFile(filepath.Join(n.Run, "b.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	all, err := n.Downloads()
	if err == nil || len(all) != 1 {
		t.Errorf("listed: %v, %v", all, err)
	}
}

func TestARecordStaysInItsFolder(t *testing.T) {
	n := testNode(t)
	for _, sandbox := range []string{"", "../x", "a/b", ".hidden", "x\x00"} {
		if err := n.Write(example(t, sandbox)); err == nil {
			t.Errorf("%q was written", sandbox)
		}
		if err := n.Remove(sandbox); err == nil {
			t.Errorf("%q was removed", sandbox)
		}
	}
}

func TestOnlyADeadProcessLeavesItsRecordToDelete(t *testing.T) {
	n := testNode(t)
	if r, err := n.TakeDead("a"); r != nil || err != nil {
		t.Errorf("before the first: %v, %v", r, err)
	}
	r := example(t, "a")
	write(t, n, r)
	if got, err := n.TakeDead("a"); got != nil || err != nil {
		t.Errorf("a running one: %v, %v", got, err)
	}
	r.Process.Start = "1"
	write(t, n, r)
	if got, err := n.TakeDead("a"); got == nil || err != nil || got.Pod != r.Pod {
		t.Errorf("got %v, %v", got, err)
	}
	isEmpty(t, n.Run)
}
