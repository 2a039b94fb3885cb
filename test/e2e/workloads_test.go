// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil/web"
)

// deploy makes a Deployment, which never has fewer pods ready than it should.
func (s scene) deploy(name string, replicas int32, pod corev1.PodTemplateSpec) {
	s.Helper()
	labels := map[string]string{"app": name}
	pod.Labels = labels
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       appsv1.DeploymentSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: pod},
	}
	if _, err := s.Client.AppsV1().Deployments(s.name).Create(s.ctx, deployment, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
}

// rolledOut waits until all pods of a Deployment are those that it wants, and
// ready, and returns them.
func (s scene) rolledOut(name string) []corev1.Pod {
	s.Helper()
	s.eventually("deployment "+name+" is rolled out", func() error {
		d, err := s.Client.AppsV1().Deployments(s.name).Get(s.ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if want := *d.Spec.Replicas; d.Status.ObservedGeneration != d.Generation || d.Status.UpdatedReplicas != want ||
			d.Status.AvailableReplicas != want || d.Status.Replicas != want {
			return fmt.Errorf("%d of %d replicas are updated, %d available", d.Status.UpdatedReplicas, want, d.Status.AvailableReplicas)
		}
		return nil
	})
	var pods []corev1.Pod
	s.eventually("the former pods of "+name+" are gone", func() (err error) {
		if pods, err = s.pods(name); err != nil {
			return err
		}
		for _, pod := range pods {
			if !isReady(pod) {
				return fmt.Errorf("pod %s isn't ready, or is ending", pod.Name)
			}
		}
		return nil
	})
	return pods
}

// change sets annotations of a Deployment's pods.
func (s scene) change(name string, annotations map[string]string) {
	s.Helper()
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"template": map[string]any{
		"metadata": map[string]any{"annotations": annotations},
	}}})
	if err != nil {
		s.Fatal(err)
	}
	_, err = s.Client.AppsV1().Deployments(s.name).Patch(s.ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		s.Fatal(err)
	}
}

func TestReplicasOfADeploymentEachHaveTheModel(t *testing.T) {
	t.Parallel()
	s := stage(t)
	url, files := s.model("model.bin", 3<<20)
	s.deploy("detector", 3, template(asksModel(url)))
	pods := s.rolledOut("detector")
	if len(pods) != 3 {
		t.Errorf("there are %d pods", len(pods))
	}
	for _, pod := range pods {
		s.sees(pod.Name, "main", url, files)
	}
}

func TestRollingUpdateBringsTheNewModel(t *testing.T) {
	t.Parallel()
	s := stage(t)
	first, _ := s.model("v1/model.bin", 1<<20)
	second, files := s.model("v2/model.bin", 2<<20)
	s.deploy("detector", 2, template(asksModel(first)))
	former := s.rolledOut("detector")

	s.change("detector", asksModel(second))
	for _, pod := range s.rolledOut("detector") {
		s.sees(pod.Name, "main", second, files)
	}
	for _, pod := range former {
		s.gone(pod)
	}
}

// A wrong URL must not take a service down: the former pods stay until the new
// ones are ready.
func TestRollingUpdateToAModelThatIsNotThereKeepsTheFormerPods(t *testing.T) {
	t.Parallel()
	s := stage(t)
	url, files := s.model("v1/model.bin", 1<<20)
	s.deploy("detector", 1, template(asksModel(url)))
	former := s.rolledOut("detector")[0]

	missing := s.web.Status("/"+s.name+"/v2/model.bin", 404)
	s.change("detector", asksModel(missing))
	s.eventually("an event says that the new model isn't there", func() error {
		return s.event("", "FailedCreatePodSandBox", missing, "404")
	})
	if pod, err := s.get(former.Name); err != nil || !isReady(pod) {
		t.Errorf("the former pod should be ready: %+v, %v", pod.Status, err)
	}
	s.sees(former.Name, "main", url, files)

	s.change("detector", asksModel(url))
	if now := s.rolledOut("detector"); len(now) != 1 || now[0].UID != former.UID {
		t.Error("going back to the former model should keep the former pod")
	}
}

func TestJobReadsADataSetWithTheKeysOfASecret(t *testing.T) {
	t.Parallel()
	s := stage(t)
	objects := map[string][]byte{}
	files := map[string][]byte{}
	for i := range 40 {
		content := web.Bytes(1000 + i)
		objects[fmt.Sprintf("coco/train/%02d.jpg", i)] = content
		files[fmt.Sprintf("%s/coco/train/%02d.jpg", s.name, i)] = content
	}
	objects["coco/train-old/00.jpg"] = []byte("not asked for")
	const access, secret = "job-user", "job-user-secret"
	s.bucket(s.name, objects, access, secret)
	_, err := s.Client.CoreV1().Secrets(s.name).Create(s.ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "minio"},
		StringData: map[string]string{"ACCESS_KEY_ID": access, "SECRET_ACCESS_KEY": secret},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	annotations := asksModel("s3://" + s.name + "/coco/train/")
	maps.Copy(annotations, asks(map[string]string{"secret": "keys", "s3-endpoint": "http://" + s.s3.Endpoint}))
	pod := template(annotations, func(spec *corev1.PodSpec) {
		spec.RestartPolicy = corev1.RestartPolicyNever
		spec.Volumes = append(spec.Volumes, corev1.Volume{
			Name: "keys", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "minio"}},
		})
		main := container("main", "tree", root)
		main.VolumeMounts = append(main.VolumeMounts, corev1.VolumeMount{Name: "keys", MountPath: "/keys", ReadOnly: true})
		spec.Containers = []corev1.Container{main}
	})
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "train"}, Spec: batchv1.JobSpec{Template: pod}}
	if _, err := s.Client.BatchV1().Jobs(s.name).Create(s.ctx, job, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.eventually("the job is done", func() error {
		now, err := s.Client.BatchV1().Jobs(s.name).Get(s.ctx, "train", metav1.GetOptions{})
		if err == nil && now.Status.Succeeded != 1 {
			err = fmt.Errorf("the job is %+v", now.Status)
		}
		return err
	})
	s.sameFiles(s.kubectl("logs", "job/train"), files)
}

// bucket makes a bucket that one user may read, with objects in it.
func (s scene) bucket(name string, objects map[string][]byte, access, secret string) {
	s.Helper()
	if err := s.s3.AddUser(s.ctx, access, secret); err != nil {
		s.Fatal(err)
	}
	if err := s.s3.MakeBucket(s.ctx, name, access); err != nil {
		s.Fatal(err)
	}
	if err := s.s3.Put(s.ctx, name, objects); err != nil {
		s.Fatal(err)
	}
}
