// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/sedna-io/containerd-shim-sedna/internal/observe"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/node"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/web"
)

// slow is how long kubelet gives an attempt, and how long a download takes.
// SEDNA_FULL_TIME=1 takes the times of a node whose runtimeRequestTimeout is 10 s.
func slow() (deadline, download time.Duration) {
	if os.Getenv("SEDNA_FULL_TIME") != "" {
		return 20 * time.Second, 90 * time.Second
	}
	return 8 * time.Second, 24 * time.Second
}

func TestAttemptsOfAModelThatTakesSeveralDeadlinesAddUp(t *testing.T) {
	const rate = 8 << 20
	for name, c := range map[string]struct {
		config     string
		serverRate int64
	}{
		"the server is slow":   {"", rate},
		"the node caps itself": {fmt.Sprintf("[storage]\nbandwidth = \"%d\"\n", rate), 0},
	} {
		t.Run(name, func(t *testing.T) {
			n := testutil.Node(t)
			n.Configure(t, configured, c.config)
			server := n.Web(t)
			deadline, download := slow()
			content := web.Bytes(int(download.Seconds()) * rate)
			url, pace := server.Paced("/model.bin", content, c.serverRate)
			pod := n.NewPod(t, node.PodSpec{
				Handler: configured, Volumes: []node.Volume{downloadVolume()},
				Annotations: asks(map[string]string{"model.url": url}),
			})
			began := time.Now()
			failed := attempt(t, pod, deadline, int64(len(content)))
			t.Logf("started at attempt %d, after %s, with %.1f %% of the bytes served", failed+1, time.Since(began).Round(time.Second),
				100*float64(pace.Served())/float64(len(content)))
			if failed == 0 {
				t.Error("the download took no second attempt")
			}
			if served := pace.Served(); served > int64(len(content))/20*21 {
				t.Errorf("%d bytes were served for %d", served, len(content))
			}
			container := pod.Start(t, node.ContainerSpec{})
			sameFiles(t, container.Tree(t, downloads+"/"+server.Host()), map[string][]byte{"model.bin": content})
		})
	}
}

// attempt asks for the pod as kubelet does, again and again, and returns how
// often in vain. Each attempt in vain must say how far it was, and be further
// than the one before it.
func attempt(t *testing.T, pod testutil.TestPod, deadline time.Duration, size int64) (failed int) {
	t.Helper()
	const most = 60
	var last int64
	for ; failed < most; failed++ {
		ctx, cancel := context.WithTimeout(context.Background(), deadline)
		err := pod.Pod.Run(ctx)
		cancel()
		if err == nil {
			return failed
		}
		t.Log(err)
		// The record has the shim's own words, even if containerd was too late
		// with them.
		if err := node.Poll(testutil.Context(t), 30*time.Second, func(context.Context) error { return noShimLeft() }); err != nil {
			t.Fatal(err)
		}
		got := resultsOf(t, pod)
		if len(got) != failed+1 {
			continue // it came to no download in the time it had
		}
		r := got[failed]
		contains(t, r.Failure.Message, " of ", " %)", "/s", "the next attempt goes on from there")
		if r.Bytes < last || r.Bytes >= size {
			t.Errorf("attempt %d: %s with %d of %d bytes after one with %d", failed+1, r.Failure.Kind, r.Bytes, size, last)
		}
		last = r.Bytes
	}
	t.Fatalf("the pod didn't start in %d attempts", most)
	return failed
}

// resultsOf lists the results of a pod, the oldest first.
func resultsOf(t *testing.T, pod testutil.TestPod) []observe.Result {
	t.Helper()
	all, err := observe.DefaultNode().Results(1000)
	if err != nil {
		t.Fatal(err)
	}
	var own []observe.Result
	for _, r := range all {
		if r.Pod.UID == pod.UID {
			own = append(own, r)
		}
	}
	return own
}
