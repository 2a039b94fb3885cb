// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sedna-io/containerd-shim-sedna/test/e2e/cluster"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/image"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/node"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/report"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/web"
)

// volume is the emptyDir that receives downloads, and root where containers see it.
const (
	volume = "sedna-storage-initializer"
	root   = "/downloads"
)

// kept is what the shim keeps in that volume for the next attempt.
const kept = ".sedna/"

// asks are annotations in our prefix: "model.url", "s3-endpoint".
func asks(pairs map[string]string) map[string]string {
	annotations := map[string]string{}
	for key, value := range pairs {
		annotations["storage.sedna.io/"+key] = value
	}
	return annotations
}

// asksModel are annotations for one URL, with its place in $MODEL.
func asksModel(url string) map[string]string {
	return asks(map[string]string{"model.url": url, "model.env": "MODEL"})
}

// at is where containers find what came from a URL.
func at(url string) string {
	_, path, _ := strings.Cut(url, "://")
	return root + "/" + path
}

// template is a pod with one container that waits and mounts the download volume.
func template(annotations map[string]string, changes ...func(*corev1.PodSpec)) corev1.PodTemplateSpec {
	class, grace := "sedna", int64(5)
	spec := corev1.PodSpec{
		RuntimeClassName:              &class,
		TerminationGracePeriodSeconds: &grace,
		Containers:                    []corev1.Container{container("main", "pause")},
		Volumes:                       []corev1.Volume{emptyDir(volume, corev1.EmptyDirVolumeSource{})},
	}
	for _, change := range changes {
		change(&spec)
	}
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Annotations: annotations}, Spec: spec}
}

// container runs the workload; it mounts the download volume.
func container(name string, args ...string) corev1.Container {
	return corev1.Container{
		Name: name, Image: node.Image, ImagePullPolicy: corev1.PullNever, Args: args,
		VolumeMounts: []corev1.VolumeMount{{Name: volume, MountPath: root}},
	}
}

func emptyDir(name string, source corev1.EmptyDirVolumeSource) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &source}}
}

// create makes a pod without waiting for it.
func (s scene) create(name string, from corev1.PodTemplateSpec) {
	s.Helper()
	pod := &corev1.Pod{ObjectMeta: from.ObjectMeta, Spec: from.Spec}
	pod.Name = name
	if _, err := s.Client.CoreV1().Pods(s.name).Create(s.ctx, pod, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
}

// run makes a pod and waits until it is ready.
func (s scene) run(name string, from corev1.PodTemplateSpec) corev1.Pod {
	s.Helper()
	s.create(name, from)
	return s.ready(name)
}

// get is the pod as it is now.
func (s scene) get(name string) (corev1.Pod, error) {
	pod, err := s.Client.CoreV1().Pods(s.name).Get(s.ctx, name, metav1.GetOptions{})
	if err != nil {
		return corev1.Pod{}, err
	}
	return *pod, nil
}

// ready waits until a pod is.
func (s scene) ready(name string) corev1.Pod {
	s.Helper()
	return s.when(name, "is ready", isReady)
}

// when waits until something holds of a pod.
func (s scene) when(name, what string, holds func(corev1.Pod) bool) (pod corev1.Pod) {
	s.Helper()
	s.eventually("pod "+name+" "+what, func() (err error) {
		if pod, err = s.get(name); err != nil {
			return err
		}
		if !holds(pod) {
			return fmt.Errorf("it is %s: %s", pod.Status.Phase, pod.Status.Message)
		}
		return nil
	})
	return pod
}

func isReady(pod corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue && pod.DeletionTimestamp == nil
		}
	}
	return false
}

// pods are those with a label app, without those that are going.
func (s scene) pods(app string) ([]corev1.Pod, error) {
	list, err := s.Client.CoreV1().Pods(s.name).List(s.ctx, metav1.ListOptions{LabelSelector: "app=" + app})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// exec returns what a command of the workload prints in a pod's container.
func (s scene) exec(pod, container string, args ...string) string {
	s.Helper()
	return s.kubectl(append([]string{"exec", pod, "--container=" + container, "--", image.Binary}, args...)...)
}

// sees fails unless a container sees exactly these files in the download volume,
// and its $MODEL is where a URL's data is.
func (s scene) sees(pod, container, url string, files map[string][]byte) {
	s.Helper()
	if got := strings.TrimSpace(s.exec(pod, container, "env", "MODEL")); got != at(url) {
		s.Errorf("$MODEL of %s in %s is %q, not %q", container, pod, got, at(url))
	}
	s.sameFiles(s.exec(pod, container, "tree", root), files)
}

// sameFiles compares what the workload's tree has printed with the source, by
// path below the download volume.
func (s scene) sameFiles(printed string, want map[string][]byte) {
	s.Helper()
	got := map[string]bool{}
	for lines := bufio.NewScanner(strings.NewReader(printed)); lines.Scan(); {
		var file report.File
		if err := json.Unmarshal(lines.Bytes(), &file); err != nil {
			s.Fatalf("read tree: %v", err)
		}
		if strings.HasPrefix(file.Path, kept) {
			continue
		}
		got[file.Path] = true
		content, ok := want[file.Path]
		if !ok {
			s.Errorf("%q is there, but not at the source", file.Path)
		} else if file.SHA256 != web.Sum(content) {
			s.Errorf("%q has %d bytes with sha256 %s; the source has %d with %s",
				file.Path, file.Size, file.SHA256, len(content), web.Sum(content))
		}
	}
	for path := range want {
		if !got[path] {
			s.Errorf("%q is missing", path)
		}
	}
}

// model puts a file on the web server, and gives its URL and what a download
// volume holds then.
func (s scene) model(name string, size int) (url string, files map[string][]byte) {
	content := web.Bytes(size)
	path := "/" + s.name + "/" + name
	url = s.web.File(path, content)
	return url, map[string][]byte{s.web.Host() + path: content}
}

// fetches counts the GET requests for a URL of the web server that began at its
// first byte.
func (s scene) fetches(url string) int {
	count := 0
	for _, request := range s.web.Requests(strings.TrimPrefix(url, "http://"+s.web.Host())) {
		span := request.Header.Get("Range")
		if request.Method == http.MethodGet && (span == "" || strings.HasPrefix(span, "bytes=0-")) {
			count++
		}
	}
	return count
}

// folder is kubelet's for a pod.
func folder(pod corev1.Pod) string {
	return filepath.Join(cluster.KubeletRoot, "pods", string(pod.UID))
}

// remove deletes a pod as `kubectl delete` does, and waits until it is gone.
func (s scene) remove(name string) {
	s.Helper()
	if err := s.Client.CoreV1().Pods(s.name).Delete(s.ctx, name, metav1.DeleteOptions{}); err != nil {
		s.Fatal(err)
	}
	s.eventually("pod "+name+" is deleted", func() error {
		_, err := s.get(name)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(err, errors.New("it is still there"))
	})
}

// gone waits until nothing of a deleted pod is left where kubelet had its volumes.
// Its logs go with kubelet's next garbage collection, once a minute: they are
// looked for at the end of all tests.
func (s scene) gone(pod corev1.Pod) {
	s.Helper()
	dir := folder(pod)
	s.eventually(dir+" is gone", func() error {
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			return errors.Join(err, fmt.Errorf("it holds %v", node.Entries(dir)))
		}
		return nil
	})
}
