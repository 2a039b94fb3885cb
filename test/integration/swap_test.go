// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/node"
)

// swapper exchanges two names again and again until it is stopped.
type swapper struct {
	stop  chan struct{}
	ended sync.WaitGroup
	swaps int // once it has ended
}

func swap(t *testing.T, a, b string) *swapper {
	s := &swapper{stop: make(chan struct{})}
	s.ended.Go(func() {
		for {
			select {
			case <-s.stop:
				return
			default:
			}
			if err := unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE); err != nil {
				t.Errorf("swap: %v", err)
				return
			}
			s.swaps++
		}
	})
	return s
}

func (s *swapper) end() int {
	close(s.stop)
	s.ended.Wait()
	return s.swaps
}

// Whoever may write below an allowed folder changes it while the pod is made:
// a folder becomes a link that leads out, and back, many times for each pod.
func TestFolderSwappedForALinkWhileThePodIsMadeNeverLeadsOut(t *testing.T) {
	n := testutil.Node(t)
	dir, config := hostFolder(t, true, "*")
	n.Configure(t, configured, config)
	outside := t.TempDir()
	put(t, outside+"/set/file", canary)
	put(t, dir+"/way/set/file", "inside")
	if err := os.Symlink(outside, dir+"/other"); err != nil {
		t.Fatal(err)
	}
	swapping := swap(t, dir+"/way", dir+"/other")
	stopped := sync.OnceValue(swapping.end)
	defer stopped()

	started, refused := 0, 0
	for range 12 {
		pod := n.NewPod(t, node.PodSpec{Handler: configured, Annotations: asks(map[string]string{
			"set.url": dir + "/way/set", "set.dir": "true", "set.mode": "writeonly",
		})})
		if err := pod.Pod.Run(testutil.Context(t)); err != nil {
			refused++
			nothingMounted(t)
			if !strings.Contains(err.Error(), "symbolic link") && !strings.Contains(err.Error(), "moved") {
				t.Errorf("refused for another reason: %v", err)
			}
			continue
		}
		started++
		container := pod.Start(t, node.ContainerSpec{})
		holds(t, container, "/hostpath"+dir+"/way/set/file", "inside")
		container.Exec(t, "write", "/hostpath"+dir+"/way/set/result", "result")
		if err := pod.Remove(testutil.Context(t)); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d pods started, %d were refused, in %d swaps", started, refused, stopped())
	for _, entry := range node.Entries(filepath.Join(outside, "set")) {
		if entry != "file" {
			t.Errorf("a pod made %s outside of the allowed folder", entry)
		}
	}
}

// The mount holds the folder that was checked, whatever its name becomes.
func TestFolderReplacedUnderARunningPodStaysTheSameInside(t *testing.T) {
	n := testutil.Node(t)
	dir, config := hostFolder(t, true, "*")
	n.Configure(t, configured, config)
	outside := t.TempDir()
	put(t, outside+"/file", canary)
	put(t, dir+"/set/file", "inside")
	pod := n.RunPod(t, node.PodSpec{Handler: configured, Annotations: asks(map[string]string{
		"set.url": dir + "/set", "set.dir": "true", "set.mode": "writeonly",
	})})
	if err := os.Rename(dir+"/set", dir+"/moved"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, dir+"/set"); err != nil {
		t.Fatal(err)
	}
	container := pod.Start(t, node.ContainerSpec{})
	holds(t, container, "/hostpath"+dir+"/set/file", "inside")
	container.Exec(t, "write", "/hostpath"+dir+"/set/result", "result")
	// Links that a pod makes there are its own words, not the node's.
	if err := os.Symlink(outside+"/file", dir+"/moved/link"); err != nil {
		t.Fatal(err)
	}
	container.ExecFails(t, "cat", "/hostpath"+dir+"/set/link")
	if got := node.Entries(outside); len(got) != 1 {
		t.Errorf("outside of the allowed folder there are now %v", got)
	}
}
