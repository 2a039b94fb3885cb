// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil/web"
)

// heldBack is a model of which the server sends a part, until its gate opens.
func (s scene) heldBack(size, part int) (url string, files map[string][]byte, gate *web.Gate) {
	content := web.Bytes(size)
	path := "/" + s.name + "/slow.bin"
	url, gate = s.web.Gated(path, content, part)
	s.Cleanup(gate.Open)
	return url, map[string][]byte{s.web.Host() + path: content}, gate
}

// reached waits until a client waits at the gate.
func (s scene) reached(gate *web.Gate) {
	s.Helper()
	s.eventually("the download has begun", func() error {
		select {
		case <-gate.Reached:
			return nil
		default:
			return errors.New("nobody waits at the gate")
		}
	})
}

// halfway makes a pod and returns when it waits in the middle of its download.
func (s scene) halfway(name string) (corev1.Pod, *web.Gate) {
	s.Helper()
	url, _, gate := s.heldBack(8<<20, 2<<20)
	s.create(name, template(asksModel(url)))
	s.reached(gate)
	pod, err := s.get(name)
	if err != nil {
		s.Fatal(err)
	}
	return pod, gate
}

// Kubelet doesn't cancel the making of a sandbox when its pod is deleted,
// kubernetes pkg/kubelet/kubelet.go:SyncPod (WithoutCancel): the pod goes when the
// download ends or kubelet's time for it is over.
func TestPodDeletedInMidDownloadGoesAtTheDeadline(t *testing.T) {
	s := stage(t)
	s.shortTimeouts()
	pod, _ := s.halfway("app")
	s.remove("app")
	s.gone(pod)
}

func TestPodDeletedInMidDownloadGoesWhenTheDownloadEnds(t *testing.T) {
	t.Parallel()
	s := stage(t)
	pod, gate := s.halfway("app")
	if err := s.Client.CoreV1().Pods(s.name).Delete(s.ctx, "app", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	gate.Open()
	s.gone(pod)
}

func TestDeletedPodLeavesNothingBelowKubeletsFolder(t *testing.T) {
	t.Parallel()
	s := stage(t)
	url, _ := s.model("model.bin", 1<<20)
	pod := s.run("app", template(asksModel(url), func(spec *corev1.PodSpec) {
		spec.Containers[0].VolumeMounts = append(spec.Containers[0].VolumeMounts,
			corev1.VolumeMount{Name: volume, MountPath: "/part", SubPath: s.web.Host()},
			corev1.VolumeMount{Name: "memory", MountPath: "/memory"})
		spec.Volumes = append(spec.Volumes, emptyDir("memory", corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}))
	}))
	s.remove("app")
	s.gone(pod)
}
