// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"net/http/httputil"
	"net/url"
	"testing"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/node"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/web"
)

// The node's user may read two buckets, pods only one.
func TestNodesKeysAreForTheirBucketAndEndpoint(t *testing.T) {
	n := testutil.Node(t)
	user := t.Name()
	if err := n.S3(t).AddUser(testutil.Context(t), user, canary); err != nil {
		t.Fatal(err)
	}
	others := n.Bucket(t, map[string][]byte{"m/model": []byte("other")}, user)
	models := n.Bucket(t, map[string][]byte{
		"m/model": []byte("model"), "index": []byte("s3://" + others.Name + "/m\nmodel\n"),
	}, user)
	ca := n.Authority(t)
	front, theirs := n.TLS(t, ca), n.TLS(t, ca)
	for _, server := range []*web.Server{front, theirs} {
		server.Handle("", httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: models.Endpoint}))
	}
	dir := t.TempDir()
	put(t, dir+"/ca.pem", string(ca.PEM))
	put(t, dir+"/minio.env", "ACCESS_KEY_ID="+user+"\nSECRET_ACCESS_KEY="+canary+"\nS3_ENDPOINT_URL=https://"+theirs.Host()+"\n")
	n.Configure(t, configured, fmt.Sprintf(`
[storage]
ca_file = "%[1]s/ca.pem"
[[endpoint]]
host = %[2]q
credentials_file = "%[1]s/minio.env"
namespaces = ["vision"]
prefixes = ["s3://%[3]s/"]
`, dir, front.Host(), models.Name))
	v := vault{front, n, front.Host()}
	s3 := func(bucket testutil.Bucket, endpoint *web.Server) map[string]string {
		return map[string]string{"model.url": "s3://" + bucket.Name + "/m/", "s3-endpoint": endpoint.Host()}
	}
	pod := n.RunPod(t, v.pod("vision", s3(models, front)))
	holds(t, pod.Start(t, node.ContainerSpec{}), downloads+"/"+models.Name+"/m/model", "model")
	if len(theirs.All()) > 0 {
		t.Error("the node's file moved the endpoint")
	}
	v.refuses(t, v.pod("vision", s3(others, front)), "PermissionDenied", "s3://"+others.Name+"/m/", "anonymous")
	v.refuses(t, v.pod("default", s3(models, front)), "PermissionDenied", "s3://"+models.Name+"/m/", "anonymous")
	v.refuses(t, v.pod("vision", s3(models, theirs)), "PermissionDenied", "s3://"+models.Name+"/m/", "anonymous")
	noSecretSent(t, theirs)
	index := s3(models, front)
	index["model.url"], index["model.indirect"] = "s3://"+models.Name+"/index", "true"
	v.fails(t, v.pod("vision", index), "PermissionDenied", "s3://"+models.Name+"/index", "anonymous")
	plain := s3(models, front)
	plain["s3-usehttps"] = "0"
	v.refuses(t, v.pod("vision", plain), "PermissionDenied", front.Host(), "verified TLS")
}
