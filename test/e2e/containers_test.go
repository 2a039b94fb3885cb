// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil/image"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/node"
)

func TestEveryKindOfContainerHasTheModel(t *testing.T) {
	t.Parallel()
	s := stage(t)
	url, files := s.model("model.bin", 1<<20)
	always := corev1.ContainerRestartPolicyAlways
	s.run("app", template(asksModel(url), func(spec *corev1.PodSpec) {
		first, sidecar := container("first", "tree", root), container("sidecar", "pause")
		first.VolumeMounts = nil // it gets the volume all the same
		sidecar.RestartPolicy = &always
		spec.InitContainers = []corev1.Container{first, sidecar}
	}))
	s.sameFiles(s.kubectl("logs", "app", "--container=first"), files)
	s.sees("app", "sidecar", url, files)
	s.sees("app", "main", url, files)

	s.kubectl("debug", "app", "--image="+node.Image, "--image-pull-policy=Never", "--container=debugger", "--profile=general",
		"--quiet", "--", image.Binary, "pause")
	s.when("app", "has a debugger", func(pod corev1.Pod) bool {
		states := pod.Status.EphemeralContainerStatuses
		return len(states) == 1 && states[0].State.Running != nil
	})
	s.sees("app", "debugger", url, files)
}

func TestCrashedContainerStartsAgainWithTheSameData(t *testing.T) {
	t.Parallel()
	s := stage(t)
	url, files := s.model("model.bin", 1<<20)
	s.create("app", template(asksModel(url), func(spec *corev1.PodSpec) {
		main := container("main", "crash", "/scratch/crashed")
		main.VolumeMounts = append(main.VolumeMounts, corev1.VolumeMount{Name: "scratch", MountPath: "/scratch"})
		spec.Containers = []corev1.Container{main, container("other", "pause")}
		spec.Volumes = append(spec.Volumes, emptyDir("scratch", corev1.EmptyDirVolumeSource{}))
	}))
	s.when("app", "has crashed and is ready again", func(pod corev1.Pod) bool {
		return isReady(pod) && restarts(pod, "main") == 1
	})
	s.sees("app", "main", url, files)
	s.sees("app", "other", url, files)
	s.has(s.kubectl("logs", "app", "--container=main", "--previous"), "crashed as told")
	s.has(s.kubectl("describe", "pod", "app"), "Exit Code:    1")
	if n := s.fetches(url); n != 1 {
		t.Errorf("the model was fetched %d times", n)
	}
}

func restarts(pod corev1.Pod, container string) int32 {
	for _, state := range pod.Status.ContainerStatuses {
		if state.Name == container {
			return state.RestartCount
		}
	}
	return 0
}

func TestKubectlExecKeepsExitCodeAndStandardInput(t *testing.T) {
	t.Parallel()
	s := stage(t)
	url, _ := s.model("model.bin", 1<<10)
	s.run("app", template(asksModel(url)))
	_, err := s.Kubectl(s.ctx, "--namespace="+s.name, "exec", "app", "--", image.Binary, "exit", "7")
	if err == nil || !strings.Contains(err.Error(), "exit status 7") {
		t.Errorf("kubectl exec of a command that ends with 7: %v", err)
	}
	cmd := s.Command(s.ctx, "--namespace="+s.name, "exec", "--stdin", "app", "--", image.Binary, "cat", "/dev/stdin")
	cmd.Stdin = strings.NewReader("hello\n")
	if out, err := cmd.Output(); err != nil || string(out) != "hello\n" {
		t.Errorf("kubectl exec --stdin prints %q, %v", out, err)
	}
}
