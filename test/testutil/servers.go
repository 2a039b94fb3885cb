// SPDX-License-Identifier: Apache-2.0

package testutil

import (
	"fmt"
	"testing"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil/dns"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/node"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/s3"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/web"
)

// Web starts a web server that pods reach, for the time of the test.
func (n TestNode) Web(t testing.TB) *web.Server {
	t.Helper()
	server, err := web.Start(node.Address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	return server
}

// Authority makes an authority that nobody knows.
func (n TestNode) Authority(t testing.TB) *web.Authority {
	t.Helper()
	ca, err := web.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

// TLS starts an https server that pods reach, with a certificate of the
// authority.
func (n TestNode) TLS(t testing.TB, ca *web.Authority, names ...string) *web.Server {
	t.Helper()
	server, err := ca.Start(node.Address, names...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	return server
}

// Neighbour is another address in the pods' network, for the time of the test:
// another server may have the port that one of the node's has.
func (n TestNode) Neighbour(t testing.TB) string {
	t.Helper()
	remove, err := node.AddAddress(node.Neighbour)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(remove)
	return node.Neighbour
}

// NameServer starts another name server than the node's, for the time of the
// test.
func (n TestNode) NameServer(t testing.TB, address string) *dns.Server {
	t.Helper()
	server, err := dns.Start(address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	return server
}

// Bucket is a bucket made for a test, on a server that all tests share.
type Bucket struct {
	*s3.Server
	Name string
}

// sharedS3 is that server; nil while no test needed it.
var sharedS3 struct {
	server  *s3.Server
	buckets int
}

// Bucket makes a bucket with objects in it, which the given users of the
// server may read; with none of them everybody may.
func (n TestNode) Bucket(t testing.TB, objects map[string][]byte, users ...string) Bucket {
	t.Helper()
	server := n.S3(t)
	sharedS3.buckets++
	bucket := Bucket{server, fmt.Sprintf("bucket-%d", sharedS3.buckets)}
	if err := server.MakeBucket(Context(t), bucket.Name, users...); err != nil {
		t.Fatal(err)
	}
	if err := server.Put(Context(t), bucket.Name, objects); err != nil {
		t.Fatal(err)
	}
	return bucket
}

// S3 is the S3 server, started if need be.
func (n TestNode) S3(t testing.TB) *s3.Server {
	t.Helper()
	if sharedS3.server != nil {
		return sharedS3.server
	}
	server, err := node.StartS3(Context(t), n.Node)
	if err != nil {
		t.Fatal(err)
	}
	sharedS3.server = server
	return server
}
