// SPDX-License-Identifier: Apache-2.0

package s3

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/minio/minio-go/v7/pkg/signer"

	"github.com/sedna-io/containerd-shim-sedna/storage/plan"
)

// The oracle stamps its own time, so the test signs with the time that it chose.
func TestSignaturesEqualThoseOfMinioGo(t *testing.T) {
	for _, tt := range []struct {
		name, path, query, token string
		header                   map[string]string
	}{
		{name: "an object", path: "/bucket/a/b"},
		{name: "a name with everything", path: "/bucket/a b+c=ü~_-.!*'()@:$&,;"},
		{name: "a listing", path: "/bucket/", query: "encoding-type=url&list-type=2&max-keys=1000&prefix=a%2Fb%20c"},
		{name: "a header of S3's", path: "/bucket/x", header: map[string]string{"X-Amz-Request-Payer": " a   b "}},
		{name: "a session token", path: "/bucket/x", token: "to+ken/=="},
	} {
		t.Run(tt.name, func(t *testing.T) {
			request := func() *http.Request {
				r := &http.Request{Method: http.MethodGet, Host: "host:9000", Header: http.Header{
					"User-Agent": {"x"}, "Accept-Encoding": {"identity"}, "X-Amz-Content-Sha256": {emptyHash},
				}}
				r.URL = &url.URL{Scheme: "http", Host: r.Host, Path: tt.path, RawPath: escapePath(tt.path), RawQuery: tt.query}
				for k, v := range tt.header {
					r.Header.Set(k, v)
				}
				return r
			}
			theirs := signer.SignV4(*request(), "access", "secret", tt.token, "eu-west-1")
			now, err := time.Parse("20060102T150405Z", theirs.Header.Get("X-Amz-Date"))
			if err != nil {
				t.Fatal(err)
			}
			ours := request()
			s := &keySigner{access: "access", secret: plan.NewSecret("secret"), token: plan.NewSecret(tt.token)}
			s.signAt(ours, "eu-west-1", now)
			want := theirs.Header.Get("Authorization")
			if got := ours.Header.Get("Authorization"); withoutSpaces(got) != withoutSpaces(want) {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

func withoutSpaces(s string) string {
	var out []rune
	for _, r := range s {
		if r != ' ' {
			out = append(out, r)
		}
	}
	return string(out)
}
