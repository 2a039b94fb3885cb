// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/node"
)

// keys is a Secret volume with S3 credentials in Sedna's names.
func keys(volume, access, secret string) node.Volume {
	return node.Volume{Name: volume, Kind: node.Secret, Files: map[string]string{
		"ACCESS_KEY_ID": access, "SECRET_ACCESS_KEY": secret,
	}}
}

// tenants are two users of the S3 server, each with a bucket of their own.
func tenants(t *testing.T, n testutil.TestNode) (alice, bob testutil.Bucket) {
	t.Helper()
	var buckets []testutil.Bucket
	for _, user := range []string{t.Name() + "-alice", t.Name() + "-bob"} {
		if err := n.S3(t).AddUser(testutil.Context(t), user, user+canary); err != nil {
			t.Fatal(err)
		}
		buckets = append(buckets, n.Bucket(t, map[string][]byte{"m/model": []byte(user)}, user))
	}
	return buckets[0], buckets[1]
}

func TestEachSecretOpensItsOwnBucketOnly(t *testing.T) {
	n := testutil.Node(t)
	alice, bob := tenants(t, n)
	name := t.Name()
	volumes := []node.Volume{
		downloadVolume(),
		keys("alice-keys", name+"-alice", name+"-alice"+canary),
		{Name: "bob-keys", Kind: node.Projected, Files: map[string]string{
			"AWS_ACCESS_KEY_ID": name + "-bob", "AWS_SECRET_ACCESS_KEY": name + "-bob" + canary + "\n",
		}},
	}
	pod := n.RunPod(t, node.PodSpec{Volumes: volumes, Annotations: asksS3(alice, map[string]string{
		"a.url": "s3://" + alice.Name + "/m/", "a.env": "A",
		"b.url": "s3://" + bob.Name + "/m/", "b.secret": "bob-keys",
		"secret": "alice-keys",
	})})
	container := pod.Start(t, node.ContainerSpec{})
	holds(t, container, downloads+"/"+alice.Name+"/m/model", name+"-alice")
	holds(t, container, downloads+"/"+bob.Name+"/m/model", name+"-bob")

	s3 := func(bucket testutil.Bucket, secret string) map[string]string {
		asked := map[string]string{"model.url": "s3://" + bucket.Name + "/m/", "s3-endpoint": bucket.Endpoint, "s3-usehttps": "0"}
		if secret != "" {
			asked["secret"] = secret
		}
		return asked
	}
	for _, c := range []failing{
		{name: "wrong keys", asks: s3(bob, "alice-keys"), says: []string{"PermissionDenied", `"alice-keys"`, "s3://" + bob.Name + "/m/", "model"}},
		{name: "wrong keys in a projected volume", asks: s3(alice, "bob-keys"), says: []string{"PermissionDenied", `"bob-keys"`, "s3://" + alice.Name + "/m/"}},
		{name: "no keys", asks: s3(alice, ""), says: []string{"PermissionDenied", "anonymous", "storage.sedna.io/secret"}},
	} {
		c.volumes = volumes
		t.Run(c.name, func(t *testing.T) { c.run(t, n) })
	}
	failing{
		asks: s3(alice, "misnamed"),
		volumes: []node.Volume{downloadVolume(), {Name: "misnamed", Kind: node.Secret, Files: map[string]string{
			"access-key": name + "-alice", "secret-key": name + "-alice" + canary,
		}}},
		says: []string{"InvalidArgument", "storage.sedna.io/secret", `"misnamed"`, `"access-key"`, "ACCESS_KEY_ID"},
	}.run(t, n)
}

func TestCAFromTheSecretVerifiesAPrivateServer(t *testing.T) {
	n := testutil.Node(t)
	ca := n.Authority(t)
	server := n.TLS(t, ca)
	url := server.File("/model", []byte("private"))
	ask := map[string]string{"model.url": url + "?token=" + canary, "secret": "trust"}
	trust := func(file string, pem []byte) []node.Volume {
		return []node.Volume{downloadVolume(), {Name: "trust", Kind: node.Secret, Files: map[string]string{file: string(pem)}}}
	}
	for _, file := range []string{"ca.crt", "CA_BUNDLE", "cabundle.crt"} {
		t.Run(file, func(t *testing.T) {
			n := testutil.Node(t)
			pod := n.RunPod(t, node.PodSpec{Volumes: trust(file, ca.PEM), Annotations: asks(ask)})
			holds(t, pod.Start(t, node.ContainerSpec{}), downloads+"/"+server.Host()+"/model", "private")
		})
	}
	other := n.Authority(t)
	for _, c := range []failing{
		{
			name: "no CA", asks: map[string]string{"model.url": url + "?token=" + canary},
			says: []string{"PermissionDenied", "model", url, "unknown authority", "ca.crt", "ca_file"},
		},
		{
			name: "another CA", asks: ask, volumes: trust("ca.crt", other.PEM),
			says: []string{"PermissionDenied", "model", url, "unknown authority", "ca.crt", "ca_file"},
		},
		{
			name: "no certificate at all", asks: ask, volumes: trust("ca.crt", []byte(canary)),
			says: []string{"InvalidArgument", `"trust"`, "ca.crt", "PEM"},
		},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, n) })
	}
	if len(server.All()) != 3 {
		t.Errorf("%d requests came through, not those of 3 pods that know the CA", len(server.All()))
	}
}

// Two servers have certificates of one authority; only one is to be trusted.
func TestCAOfOneDownloadOrEndpointIsNotForOthers(t *testing.T) {
	n := testutil.Node(t)
	ca := n.Authority(t)
	one, two := n.TLS(t, ca), n.TLS(t, ca)
	first, second := one.File("/model", []byte("one")), two.File("/model", []byte("two"))
	file := t.TempDir() + "/ca.pem"
	put(t, file, string(ca.PEM))
	volumes := []node.Volume{downloadVolume(), {Name: "trust", Kind: node.Secret, Files: map[string]string{"ca.crt": string(ca.PEM)}}}

	n.Configure(t, configured, "[[endpoint]]\nhost = \""+one.Host()+"\"\nca_file = \""+file+"\"\n")
	pod := n.RunPod(t, node.PodSpec{Handler: configured, Volumes: volumes, Annotations: asks(map[string]string{"a.url": first})})
	holds(t, pod.Start(t, node.ContainerSpec{}), downloads+"/"+one.Host()+"/model", "one")
	for _, c := range []failing{
		{name: "the node's for one host", handler: configured, asks: map[string]string{"a.url": first, "b.url": second}},
		{name: "a mount's own", asks: map[string]string{"a.url": first, "a.secret": "trust", "b.url": second}},
	} {
		c.others = true
		c.volumes, c.says = volumes, []string{"PermissionDenied", "mount b", second, "unknown authority"}
		t.Run(c.name, func(t *testing.T) { c.run(t, n) })
	}
	if asked := two.All(); len(asked) > 0 {
		t.Errorf("the second server was trusted: %v", asked)
	}

	n.Configure(t, configured, "[storage]\nca_file = \""+file+"\"\n")
	pod = n.RunPod(t, node.PodSpec{Handler: configured, Volumes: volumes, Annotations: asks(map[string]string{"a.url": first, "b.url": second})})
	holds(t, pod.Start(t, node.ContainerSpec{}), downloads+"/"+two.Host()+"/model", "two")
}
