// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	taskapi "github.com/containerd/containerd/api/runtime/task/v2"
	"github.com/containerd/log"

	"github.com/sedna-io/containerd-shim-sedna/internal/config"
	"github.com/sedna-io/containerd-shim-sedna/internal/observe"
	"github.com/sedna-io/containerd-shim-sedna/shim/bundle"
	"github.com/sedna-io/containerd-shim-sedna/storage/plan"
	"github.com/sedna-io/containerd-shim-sedna/volumes"
)

// sandbox is the preparation of one pod.
type sandbox struct {
	cfg    *config.Config
	bundle *bundle.Bundle
	pod    bundle.Pod
	log    *log.Entry
	touch  *touching

	plan    *plan.Plan
	node    volumes.Node
	volumes *volumes.PodVolumes
	record  *record

	watch *progress      // of the running download
	items []observe.Item // of its result
}

// prepareSandbox makes all decisions of a pod, once. Its order matters: fetch
// before hint, since an emptyDir with files made on the node must be a shared
// bind mount, and record before fetch, so that `delete` knows what to undo.
func (s *Service) prepareSandbox(ctx context.Context, t *touching, r *taskapi.CreateTaskRequest, b *bundle.Bundle, pod bundle.Pod) error {
	cfg, err := loadConfig(r)
	if err != nil {
		return err
	}
	p := &sandbox{cfg: cfg, bundle: b, pod: pod, log: podLog(ctx, pod), touch: t}
	if err := p.decide(); err != nil {
		return err
	}
	if err := p.volumes.Unseal(p.readOnlyVolume()); err != nil {
		return err
	}
	if p.plan.Asks() {
		if err := p.bring(ctx); err != nil {
			p.undo()
			return err
		}
	}
	if err := p.hint(ctx); err != nil {
		p.undo()
		return err
	}
	s.keep(pod.SandboxID, p.record)
	if p.record.FullStats {
		s.measure(r.ID)
	}
	return nil
}

// readOnlyVolume is the volume that only we write, "" for none.
func (p *sandbox) readOnlyVolume() string {
	if len(p.plan.Downloads) == 0 || p.plan.Writable {
		return ""
	}
	return p.plan.Volume
}

// loadConfig reads the node's configuration, whose path containerd passes with
// every Create.
func loadConfig(r *taskapi.CreateTaskRequest) (*config.Config, error) {
	path, err := configPath(r.Options)
	if err != nil {
		return nil, err
	}
	if path == "" {
		kept, err := os.ReadFile(filepath.Join(r.Bundle, configPathFile))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("read the configuration's path: %w", err)
		}
		path = string(kept)
	}
	cfg, err := config.Load(path)
	if err != nil {
		return nil, fmt.Errorf("the node's configuration: %w", err)
	}
	return cfg, nil
}

// podLog returns a logger whose lines say which pod they are about.
func podLog(ctx context.Context, pod bundle.Pod) *log.Entry {
	return log.G(ctx).WithFields(log.Fields{"pod": pod.Namespace + "/" + pod.Name, "uid": pod.UID})
}

// decide reads what the pod asked for and where its volumes are, and begins the
// record.
func (p *sandbox) decide() (err error) {
	spec := p.bundle.Spec
	p.record = newRecord(p.bundle.Dir, p.pod, spec.Annotations, p.cfg)
	for _, key := range volumes.FilterAnnotations(spec, p.cfg.Shim.GVisorAnnotations) {
		p.log.Warnf("annotation %s is not one that pods may set on this node ([shim] gvisor_annotations): removed", key)
	}
	if p.plan, err = plan.Parse(spec.Annotations); err != nil {
		return err
	}
	stripAnnotations(spec.Annotations)
	p.node = volumes.Node{KubeletRoot: p.cfg.Shim.KubeletRoot, AutoHint: p.cfg.Volumes.EmptyDir == "auto"}
	p.touch.now("kubelet's folder %s", p.node.KubeletRoot)
	p.volumes, err = volumes.Locate(spec, p.pod.UID, p.node)
	return err
}

// bring fetches what the pod asked for and records where its containers find it.
func (p *sandbox) bring(ctx context.Context) error {
	inject := &injection{
		MountPath: p.plan.MountPath, Writable: p.plan.Writable,
		Containers: p.plan.Containers, Skip: p.cfg.Shim.SkipContainers,
		Variables: recordVariables(p.plan.Variables),
	}
	p.record.Inject = inject
	if err := p.bindHostPaths(ctx); err != nil {
		return err
	}
	if len(p.plan.Downloads) == 0 {
		return nil
	}
	began := time.Now()
	err := p.download(ctx, inject)
	p.conclude(began, err)
	return err
}

// download fetches everything into the volume that the pod names.
func (p *sandbox) download(ctx context.Context, inject *injection) error {
	p.touch.now("the pod's volume %q", p.plan.Volume)
	dir, err := p.volumes.EmptyDir(p.plan.Volume)
	if err != nil {
		return fmt.Errorf("annotation %svolume: %w", annotationPrefix, err)
	}
	inject.Volume = dir
	p.record.Download = p.plan.Volume
	if err := p.record.save(p.bundle.Dir); err != nil {
		return err
	}
	return p.fetch(ctx, dir)
}

// hint makes gVisor see the volumes as the pod means them, and saves what was
// decided before the spec that follows it.
func (p *sandbox) hint(ctx context.Context) error {
	p.touch.now("a volume that the pod has annotated")
	decisions, notes, err := volumes.Decide(p.bundle.Spec, p.volumes, p.node, p.record.Download)
	if err := errors.Join(err, context.Cause(ctx)); err != nil {
		return err
	}
	p.touch.now("")
	p.warn(notes)
	p.record.Hints = decisions
	decisions.ApplySandbox(p.bundle.Spec)
	setPodsDir(p.volumes.PodsDir())
	if err := p.record.save(p.bundle.Dir); err != nil {
		return err
	}
	_, err = p.bundle.Save()
	return err
}

// undo takes back what a failed preparation has made on the node. Downloaded
// data stays: the next attempt goes on from it.
func (p *sandbox) undo() {
	if err := removePod(p.bundle.Dir); err != nil {
		p.log.WithError(err).Error("clean up after a failed Create")
	}
}

// warn logs what the pod asked for and doesn't get.
func (p *sandbox) warn(notes []string) {
	for _, note := range notes {
		p.log.Warn(note)
	}
}

// annotationPrefix is what all keys of ours begin with.
const annotationPrefix = "storage.sedna.io/"

// stripAnnotations removes our keys: runsc has no use for them, and a URL may
// hold secrets that need not lie in another file.
func stripAnnotations(annotations map[string]string) {
	for key := range annotations {
		if strings.HasPrefix(key, annotationPrefix) {
			delete(annotations, key)
		}
	}
}
