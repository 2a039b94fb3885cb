// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/node"
)

// canary stands for a secret: it must not turn up anywhere.
const canary = "c4n4ry-s3cr3t"

// programmers is what an error says that was written for them: names of Go
// types, addresses, verbs that found no value (huggingface/transformers#8497,
// kserve/kserve#1060: nobody could act on a low-level error).
var programmers = regexp.MustCompile(`\*[a-z]+\.[A-Z]\w*|0xc0[0-9a-f]{8}|%!\w|<nil>|panic|goroutine`)

// failing is a pod that must not start, and what its error tells the user.
type failing struct {
	name    string
	handler string
	asks    map[string]string
	volumes []node.Volume // the download volume alone by default
	says    []string
	others  bool // other downloads of the pod may be complete
}

// run runs the pod and looks at the error, the volume and the log.
func (f failing) run(t *testing.T, n testutil.TestNode) {
	volumes := f.volumes
	if volumes == nil {
		volumes = []node.Volume{downloadVolume()}
	}
	since := n.LogSize()
	pod := n.NewPod(t, node.PodSpec{Handler: f.handler, Volumes: volumes, Annotations: asks(f.asks)})
	message := pod.RunFails(t)
	t.Log(message)
	contains(t, message, f.says...)
	lacks(t, message, canary, "\n")
	if found := programmers.FindString(message); found != "" {
		t.Errorf("%q means nothing to a user: %s", found, message)
	}
	lacks(t, n.Log(since, 1000), canary)
	if !f.others {
		noFinalFiles(t, pod)
	}
}

func TestErrorNamesMountURLAndCause(t *testing.T) {
	n := testutil.Node(t)
	server := n.Web(t)
	public := n.Bucket(t, map[string][]byte{"m/model": []byte("x")})
	if err := n.S3(t).AddUser(testutil.Context(t), "owner", "owner-secret"); err != nil {
		t.Fatal(err)
	}
	private := n.Bucket(t, map[string][]byte{"m/model": []byte("x")}, "owner")
	s3 := func(url string) map[string]string {
		return map[string]string{"model.url": url, "s3-endpoint": public.Endpoint, "s3-usehttps": "0"}
	}
	wrongKeys := s3("s3://" + private.Name + "/m/")
	wrongKeys["secret"] = "keys"
	cases := []failing{
		{
			name: "a file that isn't there",
			asks: map[string]string{"model.url": server.Status("/gone", 404) + "?token=" + canary},
			says: []string{"model", "http://" + server.Host() + "/gone", "404"},
		},
		{
			name: "a file that isn't for us",
			asks: map[string]string{"model.url": server.Status("/secret", 403) + "?token=" + canary},
			says: []string{"model", "http://" + server.Host() + "/secret", "403"},
		},
		{
			name: "a bucket that isn't there",
			asks: s3("s3://no-such-bucket/m/"),
			says: []string{"model", "s3://no-such-bucket/m/", public.Endpoint},
		},
		{
			name: "a prefix without objects",
			asks: s3("s3://" + public.Name + "/nothing/"),
			says: []string{"model", "s3://" + public.Name + "/nothing/"},
		},
		{
			name: "a private bucket without credentials",
			asks: s3("s3://" + private.Name + "/m/"),
			says: []string{"model", "s3://" + private.Name + "/m/", "secret"},
		},
		{
			name: "credentials that the server refuses",
			asks: wrongKeys,
			volumes: []node.Volume{downloadVolume(), {Name: "keys", Kind: node.Secret, Files: map[string]string{
				"ACCESS_KEY_ID": "owner", "SECRET_ACCESS_KEY": canary,
			}}},
			says: []string{"model", "s3://" + private.Name + "/m/", "keys"},
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { c.run(t, testutil.Node(t)) })
	}
}

func TestErrorNamesWhatIsWrongWithThePod(t *testing.T) {
	testutil.Node(t)
	cases := []failing{
		{
			name: "an annotation that nobody knows",
			asks: map[string]string{"model.ulr": "https://example.com/m"},
			says: []string{"storage.sedna.io/model.ulr", "url"},
		},
		{
			name: "several mistakes at once",
			asks: map[string]string{"model.url": "ftp://example.com/m", "s3-usehttps": "maybe"},
			says: []string{"storage.sedna.io/model.url", "ftp", "storage.sedna.io/s3-usehttps", "maybe"},
		},
		{
			name:    "a volume that no container mounts",
			asks:    map[string]string{"model.url": "https://example.com/m", "volume": "models"},
			volumes: []node.Volume{{Name: "other"}},
			says:    []string{"models", "emptyDir", "mount"},
		},
		{
			name: "a secret volume that no container mounts",
			asks: map[string]string{"model.url": "https://example.com/m", "secret": "keys"},
			says: []string{"storage.sedna.io/secret", "keys", "mount"},
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { c.run(t, testutil.Node(t)) })
	}
}

func TestErrorNamesTheNodesConfigurationFile(t *testing.T) {
	testutil.Node(t)
	file := func(name string) string { return node.Dir + "/handlers/" + name + ".toml" }
	cases := []failing{
		{name: "not TOML", handler: malformed, says: []string{file(malformed) + ":2", "TOML"}},
		{name: "a key that nobody knows", handler: unknownKey, says: []string{file(unknownKey) + ":2", "max_worker", "max_workers"}},
		{name: "a value of the wrong kind", handler: wrongType, says: []string{file(wrongType) + ":3", "max_workers"}},
		{name: "no such file", handler: noConfig, says: []string{file("absent"), "no such file"}},
	}
	for _, c := range cases {
		c.volumes = []node.Volume{}
		t.Run(c.name, func(t *testing.T) { c.run(t, testutil.Node(t)) })
	}
}

// A pod's address may not be announced yet when it downloads, so refusals and
// unknown names count as passing for a while. The pods wait side by side.
func TestErrorNamesServersThatCantBeReached(t *testing.T) {
	n := testutil.Node(t)
	cases := []failing{
		{
			name: "connection refused",
			asks: map[string]string{"model.url": "http://" + node.Address + ":9/m?token=" + canary},
			says: []string{"model", "http://" + node.Address + ":9/m", "refused", "port"},
		},
		{
			name: "no route",
			asks: map[string]string{"model.url": "http://10.255.0.1/m?token=" + canary},
			says: []string{"model", "http://10.255.0.1/m", "no route"},
		},
		{
			name: "no such name",
			asks: map[string]string{"model.url": "http://models.nowhere.svc/m?token=" + canary},
			says: []string{"model", "http://models.nowhere.svc/m", "can't be resolved"},
		},
	}
	pods := make([]testutil.TestPod, len(cases))
	for i, c := range cases {
		pods[i] = n.NewPod(t, node.PodSpec{Volumes: []node.Volume{downloadVolume()}, Annotations: asks(c.asks)})
	}
	messages := make([]string, len(cases))
	var wait sync.WaitGroup
	for i, pod := range pods {
		wait.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
			defer cancel()
			if err := pod.Pod.Run(ctx); err != nil {
				messages[i] = err.Error()
			}
		})
	}
	wait.Wait()
	for i, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Log(messages[i])
			contains(t, messages[i], c.says...)
			lacks(t, messages[i], canary)
			noFinalFiles(t, pods[i])
		})
	}
	lacks(t, strings.ToLower(n.Log(0, 10000)), canary)
}
