// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// canary stands for a secret: it must not turn up anywhere.
const canary = "c4n4ry-s3cr3t"

// event succeeds when the namespace has an event about a pod, or about any, whose
// message has all the parts.
func (s scene) event(pod, reason string, parts ...string) error {
	events, err := s.Client.CoreV1().Events(s.name).List(s.ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	var said []string
	for _, event := range events.Items {
		if event.Reason != reason || pod != "" && event.InvolvedObject.Name != pod {
			continue
		}
		if containsAll(event.Message, parts) {
			return nil
		}
		said = append(said, event.Message)
	}
	return fmt.Errorf("no event of reason %s with %q, but %q", reason, parts, said)
}

func containsAll(text string, parts []string) bool {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}

func TestDescribeSaysWhyAPodDoesNotStart(t *testing.T) {
	t.Parallel()
	s := stage(t)
	s.bucket(s.name, map[string][]byte{"m/model": []byte("x")}, "owner", "owner-secret")
	s3 := func(more map[string]string) map[string]string {
		all := map[string]string{"model.url": "s3://" + s.name + "/m/", "s3-endpoint": "http://" + s.s3.Endpoint}
		maps.Copy(all, more)
		return all
	}
	_, err := s.Client.CoreV1().Secrets(s.name).Create(s.ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "wrong"},
		StringData: map[string]string{"ACCESS_KEY_ID": "owner", "SECRET_ACCESS_KEY": canary},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	gone, forbidden := s.web.Status("/"+s.name+"/gone", 404), s.web.Status("/"+s.name+"/forbidden", 403)
	cases := map[string]struct {
		asks map[string]string
		says []string
	}{
		"not-found": {map[string]string{"model.url": gone + "?token=" + canary}, []string{"mount model", gone, "404"}},
		"forbidden": {map[string]string{"model.url": forbidden + "?token=" + canary}, []string{"mount model", forbidden, "403"}},
		"misspelt": {
			map[string]string{"model.ulr": "https://example.com/m", "s3-usehttps": "maybe"},
			[]string{"storage.sedna.io/model.ulr", "model.url", "storage.sedna.io/s3-usehttps", `"maybe"`},
		},
		"host-path":  {map[string]string{"model.url": "/etc/shadow"}, []string{`its folder "/etc"`, "[[host_path]]"}},
		"variable":   {map[string]string{"model.url": gone, "model.env": "LD_PRELOAD"}, []string{"LD_PRELOAD", "may not be set"}},
		"anonymous":  {s3(nil), []string{"s3://" + s.name + "/m/", "secret"}},
		"wrong-keys": {s3(map[string]string{"secret": "keys"}), []string{"s3://" + s.name + "/m/", "keys"}},
		"no-volume":  {map[string]string{"model.url": gone, "volume": "models"}, []string{`"models"`, "emptyDir"}},
	}
	for name, c := range cases {
		s.create(name, template(asks(c.asks), func(spec *corev1.PodSpec) {
			if name != "wrong-keys" {
				return
			}
			spec.Volumes = append(spec.Volumes, corev1.Volume{
				Name: "keys", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "wrong"}},
			})
			spec.Containers[0].VolumeMounts = append(spec.Containers[0].VolumeMounts, corev1.VolumeMount{Name: "keys", MountPath: "/keys"})
		}))
	}
	for name, c := range cases {
		s.eventually("an event says why pod "+name+" doesn't start", func() error {
			return s.event(name, "FailedCreatePodSandBox", c.says...)
		})
		text := s.kubectl("describe", "pod", name)
		line := lineWith(text, "FailedCreatePodSandBox")
		t.Logf("%s: %s", name, line)
		s.has(line, c.says...)
		if strings.Contains(text, canary) && !strings.Contains(c.asks["model.url"], canary) || strings.Contains(line, canary) {
			t.Errorf("a secret is in: %s", line)
		}
	}
}

// lineWith is the first line with a word.
func lineWith(text, word string) string {
	for line := range strings.Lines(text) {
		if strings.Contains(line, word) {
			return strings.TrimSpace(line)
		}
	}
	return ""
}
