// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil/report"
)

// downloadsInto replaces the volume that receives downloads.
func downloadsInto(source corev1.EmptyDirVolumeSource) func(*corev1.PodSpec) {
	return func(spec *corev1.PodSpec) { spec.Volumes = []corev1.Volume{emptyDir(volume, source)} }
}

func sized(medium corev1.StorageMedium, limit string) corev1.EmptyDirVolumeSource {
	size := resource.MustParse(limit)
	return corev1.EmptyDirVolumeSource{Medium: medium, SizeLimit: &size}
}

func TestModelInAMemoryVolume(t *testing.T) {
	t.Parallel()
	s := stage(t)
	url, files := s.model("model.bin", 8<<20)
	s.run("app", template(asksModel(url), downloadsInto(sized(corev1.StorageMediumMemory, "32Mi"))))
	s.sees("app", "main", url, files)
}

func TestModelThatDoesNotFitIntoAMemoryVolume(t *testing.T) {
	t.Parallel()
	s := stage(t)
	url, _ := s.model("model.bin", 8<<20)
	s.create("app", template(asksModel(url), downloadsInto(sized(corev1.StorageMediumMemory, "4Mi"))))
	s.eventually("an event says so", func() error {
		return s.event("app", "FailedCreatePodSandBox", url, "8.0 MiB", "4.0 MiB")
	})
}

// A shim can't see an emptyDir's sizeLimit. Kubelet measures, and evicts the pod.
func TestModelAboveTheSizeLimitEvictsThePod(t *testing.T) {
	t.Parallel()
	s := stage(t)
	url, _ := s.model("model.bin", 8<<20)
	s.create("app", template(asksModel(url), downloadsInto(sized("", "4Mi"))))
	s.eventually("kubelet evicts the pod", func() error {
		return s.event("app", "Evicted", volume, "exceeds the limit", `"4Mi"`)
	})
	s.when("app", "has ended", func(pod corev1.Pod) bool {
		return pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
	})
}

// Its own limit says so before the download, and without an eviction.
func TestModelAboveMaxBytesIsRefused(t *testing.T) {
	t.Parallel()
	s := stage(t)
	url, _ := s.model("model.bin", 8<<20)
	annotations := asksModel(url)
	maps.Copy(annotations, asks(map[string]string{"max-bytes": "4Mi"}))
	s.create("app", template(annotations, downloadsInto(sized("", "4Mi"))))
	s.eventually("an event says so", func() error {
		return s.event("app", "FailedCreatePodSandBox", "max-bytes", "4.0 MiB")
	})
}

func TestUserWithoutRootReadsTheModelByFSGroup(t *testing.T) {
	t.Parallel()
	s := stage(t)
	url, files := s.model("model.bin", 1<<20)
	user, group, volumes, yes := int64(1000), int64(3000), int64(2000), true
	s.run("app", template(asksModel(url), func(spec *corev1.PodSpec) {
		spec.SecurityContext = &corev1.PodSecurityContext{
			RunAsNonRoot: &yes, RunAsUser: &user, RunAsGroup: &group, FSGroup: &volumes,
		}
	}))
	for path, content := range files {
		// The root of the volume has a folder that is for the shim alone.
		folder, name := filepath.Split(path)
		s.sameFiles(s.exec("app", "main", "tree", root+"/"+folder), map[string][]byte{name: content})
		var stat report.Stat
		if err := json.Unmarshal([]byte(s.exec("app", "main", "stat", root+"/"+path)), &stat); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%s %d:%d", stat.Mode, stat.UID, stat.GID); got != "0644 0:2000" {
			t.Errorf("mode and owner of the model are %s", got)
		}
	}
}
