// SPDX-License-Identifier: Apache-2.0

// Package load starts many pods, one after the other and many at once, ours
// beside gVisor's own shim in the same run, and says how long each took, what its
// shim weighs, and whether anything is left.
package load

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/binaries"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/node"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/web"
)

func TestMain(m *testing.M) {
	testutil.Main(m, node.Options{LogLevel: "warn"})
}

const (
	pods   = 100 // of each kind
	atOnce = 20
	// model is the size of what an annotated pod downloads, bytes.
	model = 64 << 10
	// patience bounds the start or removal of one pod on a busy machine.
	patience = 2 * time.Minute
)

// kind is a way to run a pod.
type kind struct {
	name, program string
	spec          func(url string) node.PodSpec
}

var kinds = []kind{
	{"ours, with a model", binaries.Shim, func(url string) node.PodSpec {
		return node.PodSpec{
			Volumes:     []node.Volume{{Name: "sedna-storage-initializer"}},
			Annotations: map[string]string{"storage.sedna.io/model.url": url, "storage.sedna.io/model.env": "MODEL"},
		}
	}},
	{"ours, plain", binaries.Shim, func(string) node.PodSpec { return node.PodSpec{} }},
	{"gVisor's, plain", binaries.GVisor, func(string) node.PodSpec { return node.PodSpec{Handler: node.Runsc} }},
}

// BenchmarkPodsInARow starts and removes one pod after the other, the kinds by
// turns.
func BenchmarkPodsInARow(b *testing.B) {
	n := testutil.Node(b)
	url := n.Web(b).File("/model", web.Bytes(model))
	for range b.N {
		took := make([][]float64, len(kinds))
		for range pods {
			for i, k := range kinds {
				batch := prepare(b, n, k, url, 1)
				took[i] = append(took[i], batch.start()...)
				batch.remove()
			}
		}
		for i, k := range kinds {
			b.Logf("%-20s %s", k.name, percentiles(took[i]))
		}
		b.ReportMetric(percentile(took[1], 50)/percentile(took[2], 50), "plain-ours/theirs-p50")
	}
}

// BenchmarkPodsAtOnce starts pods together, weighs their shims while all run,
// and removes them together.
func BenchmarkPodsAtOnce(b *testing.B) {
	n := testutil.Node(b)
	url := n.Web(b).File("/model", web.Bytes(model))
	for range b.N {
		took, rounds, weights := make([][]float64, len(kinds)), make([][]float64, len(kinds)), make([][]float64, len(kinds))
		for range pods / atOnce {
			for i, k := range kinds {
				batch := prepare(b, n, k, url, atOnce)
				began := time.Now()
				took[i] = append(took[i], batch.start()...)
				rounds[i] = append(rounds[i], time.Since(began).Seconds())
				weights[i] = append(weights[i], weigh(b, k.program)/atOnce)
				batch.remove()
			}
		}
		for i, k := range kinds {
			b.Logf("%-20s %s; all %d within %.2f s; shims %.2f MiB a pod",
				k.name, percentiles(took[i]), atOnce, percentile(rounds[i], 50), percentile(weights[i], 50))
		}
		b.ReportMetric(percentile(took[1], 50)/percentile(took[2], 50), "plain-ours/theirs-p50")
		b.ReportMetric(percentile(weights[0], 50)/percentile(weights[2], 50), "memory-ours/theirs")
	}
}

// BenchmarkWorkerMemory is what a worker weighs in the middle of a download, on
// top of its pod's shim and for that long only.
func BenchmarkWorkerMemory(b *testing.B) {
	n := testutil.Node(b)
	server := n.Web(b)
	for range b.N {
		var weights []float64
		for round := range 9 {
			url, gate := server.Gated(fmt.Sprintf("/gated-%d", round), web.Bytes(8<<20), 4<<20)
			batch := prepare(b, n, kinds[0], url, 1)
			done := make(chan struct{})
			go func() {
				defer close(done)
				batch.start()
			}()
			<-gate.Reached
			weights = append(weights, weigh(b, binaries.Worker))
			gate.Open()
			<-done
			batch.remove()
		}
		b.Logf("worker in the middle of 8 MiB: %.1f MiB", percentile(weights, 50))
		b.ReportMetric(percentile(weights, 50), "MiB")
	}
}

// batch is pods that are started and removed together.
type batch struct {
	b    *testing.B
	pods []*node.Pod
}

// prepare makes what kubelet makes before it asks for sandboxes.
func prepare(b *testing.B, n testutil.TestNode, k kind, url string, count int) batch {
	made := batch{b: b}
	for range count {
		pod, err := n.Node.NewPod(k.spec(url))
		if err != nil {
			b.Fatal(err)
		}
		made.pods = append(made.pods, pod)
	}
	return made
}

// start returns how long each pod took with its container, seconds.
func (s batch) start() []float64 {
	took := make([]float64, len(s.pods))
	s.each(func(ctx context.Context, i int) error {
		began := time.Now()
		if err := s.pods[i].Run(ctx); err != nil {
			return err
		}
		_, err := s.pods[i].Start(ctx, node.ContainerSpec{})
		took[i] = time.Since(began).Seconds()
		return err
	})
	return took
}

func (s batch) remove() {
	s.each(func(ctx context.Context, i int) error { return s.pods[i].Remove(ctx) })
	for _, pod := range s.pods {
		if err := pod.Destroy(); err != nil {
			s.b.Error(err)
		}
	}
}

// each does something with all pods at the same time.
func (s batch) each(do func(context.Context, int) error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var all sync.WaitGroup
	for i := range s.pods {
		all.Go(func() {
			if err := do(ctx, i); err != nil {
				s.b.Error(err)
			}
		})
	}
	all.Wait()
}

// weigh is the proportional set size of a program's processes, MiB.
func weigh(b *testing.B, program string) float64 {
	found, err := node.Find(program)
	if err != nil {
		b.Fatal(err)
	}
	var total int64
	for _, process := range found {
		pss, err := process.PSS()
		if err != nil {
			b.Fatal(err)
		}
		total += pss
	}
	return float64(total) / (1 << 20)
}

// percentile is the value at or below which this many percent lie.
func percentile(values []float64, percent int) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(len(sorted)*percent/100, len(sorted)-1)]
}

func percentiles(values []float64) string {
	return fmt.Sprintf("p50 %.3f s, p90 %.3f s, p99 %.3f s, most %.3f s of %d",
		percentile(values, 50), percentile(values, 90), percentile(values, 99), slices.Max(values), len(values))
}
