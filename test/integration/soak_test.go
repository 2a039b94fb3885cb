// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/binaries"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/node"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/web"
)

// What TestRandomKillsLeaveNothing does, by the environment: `make soak` runs
// more rounds, and a seed that failed can be run again.
const (
	roundsEnv = "SEDNA_TEST_ROUNDS"
	seedEnv   = "SEDNA_TEST_SEED"
)

// number is an environment variable, or a default.
func number(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// Victims of a SIGKILL, by program.
var victims = []string{binaries.Shim, binaries.Worker, "runsc", "runsc-sandbox", "runsc-gofer", "containerd"}

// Moments of a SIGKILL in the life of a pod.
var moments = []string{"at the start", "in the download", "at the hand-off", "while it runs", "at the end"}

// soak is a run of many rounds.
type soak struct {
	node testutil.TestNode
	rand *rand.Rand
	dir  string // a folder of the node that pods ask for

	hits     map[string]int // by moment and victim
	sockets  int            // that containerd forgot
	slowest  time.Duration  // removal of a pod
	daemon   int            // containerd's pid
	first    usage          // of that containerd, after its first round
	measured int            // rounds since
	most     usage          // beyond the first, over all
}

// usage is what a process holds.
type usage struct {
	files int
	bytes int64
}

// Whoever is killed, and whenever: once the pod is removed, nothing of it is on
// the node, and the next one starts.
func TestRandomKillsLeaveNothing(t *testing.T) {
	rounds := number(t, roundsEnv, 20)
	seed := number(t, seedEnv, uint64(time.Now().UnixNano()))
	t.Logf("%s=%d", seedEnv, seed)
	s := &soak{node: testutil.Node(t), rand: rand.New(rand.NewPCG(seed, seed)), hits: map[string]int{}}
	dir, config := hostFolder(t, false, "*")
	put(t, dir+"/data/file", "data")
	s.dir = dir
	s.node.Configure(t, configured, config)
	for round := range rounds {
		name := fmt.Sprintf("round %d", round)
		if !t.Run(name, s.round) {
			t.Fatalf("%s failed with %s=%d", name, seedEnv, seed)
		}
	}
	for _, what := range slices.Sorted(maps.Keys(s.hits)) {
		t.Logf("%3d kills of %s", s.hits[what], what)
	}
	t.Logf("containerd has forgotten %d sockets of shims that it never reached", s.sockets)
	t.Logf("the slowest removal took %s; containerd held at most %d files and %d KiB more than after its first round",
		s.slowest.Round(time.Millisecond), s.most.files, s.most.bytes>>10)
}

// round runs a pod to its end, or to that of its victim, and removes it.
func (s *soak) round(t *testing.T) {
	victim, moment := pick(s.rand, victims), pick(s.rand, moments)
	wait := time.Duration(s.rand.Int64N(int64(500 * time.Millisecond)))
	t.Logf("%s %s, %s", victim, moment, wait)
	server := s.node.Web(t)
	content := web.Bytes(4 << 20)
	url, gate := server.Gated("/model.bin", content, 1<<20)
	if moment != "in the download" {
		gate.Open()
	}
	pod, err := s.node.Node.NewPod(node.PodSpec{
		Handler: configured, Volumes: []node.Volume{downloadVolume()},
		Annotations: asks(map[string]string{"model.url": url, "data.url": s.dir + "/data/"}),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx := testutil.Context(t)
	done := make(chan error, 1)
	go func() { done <- s.live(ctx, pod) }()
	ended := false
	switch moment {
	case "in the download":
		ended = await(gate.Reached, done)
	case "at the hand-off":
		wait /= 5
		_ = node.Poll(ctx, 5*time.Second, func(context.Context) error {
			found, err := node.Find("runsc", "create")
			if err == nil && len(found) == 0 {
				err = os.ErrNotExist
			}
			return err
		})
	case "while it runs", "at the end":
		if err := <-done; err != nil {
			t.Fatalf("a pod that nobody has hit: %v", err)
		}
		ended = true
	}
	removal, stop := context.WithCancel(ctx)
	defer stop()
	removed := make(chan error, 1)
	if moment == "at the end" {
		go func() { removed <- pod.Remove(removal) }()
	}
	time.Sleep(wait) // chance decides what it hits: that is the test
	s.kill(t, victim, moment)
	gate.Open()
	if !ended {
		err := <-done
		t.Log("the pod: ", err)
		s.forgotten(t, err)
	}
	if moment == "at the end" {
		if victim == "containerd" {
			stop()
		}
		t.Log("its removal: ", <-removed)
	}
	if victim == "containerd" {
		if err := s.node.Restart(ctx, true); err != nil {
			t.Fatal(err)
		}
	}
	s.remove(t, pod)
	s.measure(t)
}

// unconnected is what containerd says of a shim that was killed between the end of
// its start and containerd's first call.
var unconnected = regexp.MustCompile("failed to create TTRPC connection: dial unix (" + node.ShimSockets + "/[0-9a-f]+)")

// forgotten removes a socket that containerd forgets in that case: it runs no
// delete command for a shim that it never reached.
func (s *soak) forgotten(t *testing.T, err error) {
	if err == nil {
		return
	}
	if found := unconnected.FindStringSubmatch(err.Error()); found != nil && os.Remove(found[1]) == nil {
		t.Logf("containerd has forgotten %s", found[1])
		s.sockets++
	}
}

// pick takes one at random.
func pick(r *rand.Rand, from []string) string { return from[r.IntN(len(from))] }

// await says whether done had something before reached was closed.
func await(reached <-chan struct{}, done chan error) bool {
	select {
	case <-reached:
		return false
	case err := <-done:
		done <- err
		return false
	}
}

// live runs the pod and a container in it.
func (s *soak) live(ctx context.Context, pod *node.Pod) error {
	if err := pod.Run(ctx); err != nil {
		return err
	}
	_, err := pod.Start(ctx, node.ContainerSpec{})
	return err
}

// kill hits all processes of a program, if there are any.
func (s *soak) kill(t *testing.T, victim, moment string) {
	t.Helper()
	found, err := node.Find(victim)
	if err != nil {
		t.Fatal(err)
	}
	for _, process := range found {
		t.Logf("kill %d: %s", process.PID, process.Command())
		_ = process.Kill() // it may have ended meanwhile
	}
	if len(found) > 0 {
		s.hits[victim+" "+moment]++
	}
}

// remove removes the pod as kubelet does: again, until it is gone.
func (s *soak) remove(t *testing.T, pod *node.Pod) {
	t.Helper()
	began := time.Now()
	err := node.Poll(testutil.Context(t), 100*time.Second, func(ctx context.Context) error { return pod.Remove(ctx) })
	if err != nil {
		t.Errorf("remove the pod: %v", err)
	}
	took := time.Since(began)
	s.slowest = max(s.slowest, took)
	if took > 5*time.Second {
		t.Logf("the removal took %s", took)
	}
	// kubelet takes the pod's cgroup and volumes away when nothing of it runs.
	if err := node.Poll(testutil.Context(t), 30*time.Second, func(context.Context) error { return noShimLeft() }); err != nil {
		t.Error(err)
	}
	if err := pod.Destroy(); err != nil {
		t.Errorf("destroy the pod: %v", err)
	}
	if err := s.node.CheckLeftovers(testutil.Context(t)); err != nil {
		t.Error(err)
	}
}

// measure compares what containerd holds with what it held after its first
// round.
func (s *soak) measure(t *testing.T) {
	t.Helper()
	found, err := node.Find("containerd")
	if err != nil || len(found) != 1 {
		t.Fatalf("containerd: %v, %v", found, err)
	}
	files, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(found[0].PID), "fd"))
	if err != nil {
		t.Fatal(err)
	}
	memory, err := found[0].PSS()
	if err != nil {
		t.Fatal(err)
	}
	now := usage{len(files), memory}
	if s.daemon != found[0].PID {
		s.daemon, s.first, s.measured = found[0].PID, now, 0
		return
	}
	s.measured++
	more := usage{now.files - s.first.files, now.bytes - s.first.bytes}
	s.most = usage{max(s.most.files, more.files), max(s.most.bytes, more.bytes)}
	if more.bytes > 64<<20 { // what Go's collector lets a quiet daemon grow by is half of that
		t.Errorf("after %d rounds containerd has %d MiB of memory, after its first %d MiB", s.measured, now.bytes>>20, s.first.bytes>>20)
	}
	if more.files > 8 {
		t.Errorf("after %d rounds containerd has %d files open, after its first %d: %s", s.measured, now.files, s.first.files, openFiles(found[0].PID))
	}
}

// openFiles names what a process has open.
func openFiles(pid int) string {
	dir := filepath.Join("/proc", strconv.Itoa(pid), "fd")
	var names []string
	for _, name := range node.Entries(dir) {
		target, _ := os.Readlink(filepath.Join(dir, name))
		names = append(names, target)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}
