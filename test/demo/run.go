// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil/node"
)

// errNotTornDown marks what is left behind.
var errNotTornDown = errors.New("not everything was torn down")

// run is the whole story. What it started it takes down again in reverse
// order, also when it was interrupted or failed in between.
func run(ctx context.Context) (err error) {
	p := &printer{}
	p.title("A node: containerd with the handler %q, a pod network, an S3 server, a web server", node.Sedna)
	n, err := node.Start(ctx, node.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, tearDown(p, n, time.Now())) }()
	p.phase("containerd is ready", n.ReadyAfter)
	p.phase("image imported: what is a pull elsewhere", n.ImagesAfter)

	began := time.Now()
	sources, err := startSources(ctx, n)
	if err != nil {
		return err
	}
	defer sources.close()
	p.phase("servers run, their files uploaded", time.Since(began))
	return runPod(ctx, p, n, sources)
}

// tearDown waits for no context: it runs after Ctrl-C too.
func tearDown(p *printer, n *node.Node, began time.Time) error {
	err := errors.Join(n.CheckLeftovers(context.Background()), n.Close())
	if err != nil {
		return fmt.Errorf("%w: %w", errNotTornDown, err)
	}
	p.title("Torn down")
	p.phase("no process, mount, socket, network namespace or cgroup is left", time.Since(began))
	return nil
}

func runPod(ctx context.Context, p *printer, n *node.Node, from *sources) (err error) {
	pod, err := n.NewPod(from.pod())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, removePod(pod)) }()
	p.title("A pod, as kubelet would ask for it")
	p.annotations(pod.Spec.Annotations)

	since, began := n.LogSize(), time.Now()
	if err := pod.Run(ctx); err != nil {
		return fmt.Errorf("run the pod: %w\n%s", err, n.Log(since, 20))
	}
	sandbox := time.Since(began)
	began = time.Now()
	container, err := pod.Start(ctx, node.ContainerSpec{Name: "app"})
	if err != nil {
		return fmt.Errorf("start the container: %w\n%s", err, n.Log(since, 20))
	}
	p.title("Its start")
	p.phase("sandbox with its data: RunPodSandbox", sandbox)
	p.note("of which the shim says: %s", downloadLine(n.Log(since, 200)))
	p.phase("container: CreateContainer and StartContainer", time.Since(began))
	return look(ctx, p, container, from.files)
}

func removePod(pod *node.Pod) error {
	if err := errors.Join(pod.Remove(context.Background()), pod.Destroy()); err != nil {
		return fmt.Errorf("%w: %w", errNotTornDown, err)
	}
	return nil
}
