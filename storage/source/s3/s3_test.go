// SPDX-License-Identifier: Apache-2.0

package s3

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"

	"github.com/sedna-io/containerd-shim-sedna/storage/plan"
	"github.com/sedna-io/containerd-shim-sedna/storage/source"
	"github.com/sedna-io/containerd-shim-sedna/storage/source/ranged"
	"github.com/sedna-io/containerd-shim-sedna/storage/storagetest"
	"github.com/sedna-io/containerd-shim-sedna/storage/worker"
)

func open(t *testing.T, raw string, s plan.S3, c plan.Credentials) *Source {
	t.Helper()
	n, err := ranged.NewNetwork(worker.Network{}, 4)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	n.Retry = source.Retry{Tries: 3, Base: time.Millisecond, Max: time.Millisecond, Longest: time.Second, Stall: 10 * time.Second}
	u, err := plan.ParseURL(raw)
	if err != nil {
		t.Fatal(err)
	}
	src, err := New(n, plan.Download{URL: u, S3: s, Dir: strings.HasSuffix(raw, "/")}, c)
	if err != nil {
		t.Fatal(err)
	}
	return src
}

func service(s *storagetest.Server) plan.S3 {
	insecure := true
	return plan.S3{Endpoint: strings.TrimPrefix(s.URL, "http://"), Insecure: &insecure}
}

func keysOf(t *testing.T, src *Source) ([]string, error) {
	t.Helper()
	var keys []string
	err := src.List(t.Context(), func(o source.Object) error {
		keys = append(keys, o.Key)
		return nil
	})
	return keys, err
}

// answer replies with a status, headers and a body.
func answer(status int, body string, headers ...string) storagetest.Fault {
	return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		for i := 0; i+1 < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}
}

var keys = plan.Credentials{From: `the pod's volume "keys"`, AccessKey: plan.NewSecret("ak"), SecretKey: plan.NewSecret("sk"), SessionToken: plan.NewSecret("session")}

func TestAnotherRegionIsFollowedOnce(t *testing.T) {
	b := storagetest.NewBucket("models")
	b.Put("m/f", []byte("data"))
	signedFor := func(r *http.Request, region string) bool {
		return strings.Contains(r.Header.Get("Authorization"), "/"+region+"/s3/")
	}
	for name, refusal := range map[string]storagetest.Fault{
		"by the signature's error": answer(400, "<Error><Code>AuthorizationHeaderMalformed</Code><Region>eu-west-1</Region></Error>"),
		"by a redirect":            answer(301, "<Error><Code>PermanentRedirect</Code></Error>", "x-amz-bucket-region", "eu-west-1"),
		"by a HEAD's header":       answer(400, "", "x-amz-bucket-region", "eu-west-1"),
	} {
		t.Run(name, func(t *testing.T) {
			s := storagetest.Serve(t, b, func(_ int, r *http.Request) storagetest.Fault {
				if signedFor(r, "eu-west-1") {
					return nil
				}
				return refusal
			})
			if got, err := keysOf(t, open(t, "s3://models/m/", service(s), keys)); err != nil || len(got) != 1 {
				t.Errorf("got %q, %v", got, err)
			}
			where := service(s)
			where.Region = "us-west-2"
			_, err := keysOf(t, open(t, "s3://models/m/", where, keys))
			if err == nil || !strings.Contains(err.Error(), `"eu-west-1", not in "us-west-2"`) {
				t.Errorf("with a region of the user's own: %v", err)
			}
		})
	}
	t.Run("and not in circles", func(t *testing.T) {
		n := 0
		s := storagetest.Serve(t, b, func(int, *http.Request) storagetest.Fault {
			n++
			return answer(301, "<Error><Code>PermanentRedirect</Code></Error>", "x-amz-bucket-region", fmt.Sprintf("region-%d", n))
		})
		if _, err := keysOf(t, open(t, "s3://models/m/", service(s), keys)); err == nil || n > 2 {
			t.Errorf("after %d requests: %v", n, err)
		}
	})
}

func TestWhatS3SaysIsToldPlainly(t *testing.T) {
	for _, tt := range []struct {
		status     int
		code, says string
		kind       error
	}{
		{403, "RequestTimeTooSkewed", "clock differs", errdefs.ErrPermissionDenied},
		{403, "InvalidAccessKeyId", "unknown to the server", errdefs.ErrPermissionDenied},
		{403, "SignatureDoesNotMatch", "secret key is wrong", errdefs.ErrPermissionDenied},
		{400, "ExpiredToken", "session token has expired", errdefs.ErrPermissionDenied},
		{403, "AccessDenied", `the pod's volume "keys"`, errdefs.ErrPermissionDenied},
		{404, "NoSuchBucket", `no bucket "models"`, errdefs.ErrNotFound},
		{503, "SlowDown", "tried 3 times", errdefs.ErrUnavailable},
		{400, "SomethingNew", "SomethingNew", errdefs.ErrInvalidArgument},
	} {
		s := storagetest.Serve(t, storagetest.NewFiles(), storagetest.Always(answer(tt.status, "<Error><Code>"+tt.code+"</Code></Error>")))
		_, err := keysOf(t, open(t, "s3://models/m/", service(s), keys))
		if !errors.Is(err, tt.kind) || !strings.Contains(fmt.Sprint(err), tt.says) {
			t.Errorf("%s: error is %v, want %q", tt.code, err, tt.says)
		}
	}
}

func TestTheSessionTokenIsSentAndSigned(t *testing.T) {
	b := storagetest.NewBucket("models")
	b.Put("m/f", nil)
	s := storagetest.Serve(t, b, nil)
	var got http.Header
	s.Watch(func(r *http.Request) { got = r.Header.Clone() })
	if _, err := keysOf(t, open(t, "s3://models/m/", service(s), keys)); err != nil {
		t.Fatal(err)
	}
	if got.Get("X-Amz-Security-Token") != "session" || !strings.Contains(got.Get("Authorization"), "x-amz-security-token") {
		t.Errorf("headers are %v", got)
	}
	if _, err := keysOf(t, open(t, "s3://models/m/", service(s), plan.Credentials{})); err != nil || got.Get("Authorization") != "" {
		t.Errorf("an anonymous request was signed: %v, %v", got, err)
	}
}

func TestBrokenListingsFail(t *testing.T) {
	page := func(inner string) string { return "<ListBucketResult>" + inner + "</ListBucketResult>" }
	for name, body := range map[string]string{
		"no XML":                "<html>",
		"another document":      "<Other></Other>",
		"cut":                   "<ListBucketResult><Contents><Key>m/a</Key>",
		"no way on":             page("<IsTruncated>true</IsTruncated><Contents><Key>m/a</Key></Contents>"),
		"in circles":            page("<IsTruncated>true</IsTruncated><NextContinuationToken>x</NextContinuationToken><Contents><Key>m/a</Key></Contents>"),
		"keys of others":        page("<Contents><Key>other/a</Key></Contents>"),
		"a negative size":       page("<Contents><Key>m/a</Key><Size>-1</Size></Contents>"),
		"a size that's none":    page("<Contents><Key>m/a</Key><Size>x</Size></Contents>"),
		"a key badly encoded":   page("<EncodingType>url</EncodingType><Contents><Key>m/%zz</Key></Contents>"),
		"data under a folder's": page("<Contents><Key>m/a/</Key><Size>5</Size></Contents>"),
	} {
		s := storagetest.Serve(t, storagetest.NewFiles(), storagetest.Always(answer(200, body)))
		got, err := keysOf(t, open(t, "s3://models/m/", service(s), plan.Credentials{}))
		if err == nil {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

// A server that always says that there's more can't keep a node listing.
func TestListingsThatNeverEndAreEnded(t *testing.T) {
	for says, contents := range map[string]string{
		"pages in a row hold no object":     "",
		"a second page begins with \"m/a\"": "<Contents><Key>m/a</Key></Contents>",
	} {
		n := 0
		s := storagetest.Serve(t, storagetest.NewFiles(), func(int, *http.Request) storagetest.Fault {
			n++
			return answer(200, fmt.Sprintf("<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>%d</NextContinuationToken>%s</ListBucketResult>", n, contents))
		})
		_, err := keysOf(t, open(t, "s3://models/m/", service(s), plan.Credentials{}))
		if !errors.Is(err, errdefs.ErrDataLoss) || !strings.Contains(err.Error(), says) {
			t.Errorf("after %d pages: error is %v, want %q", n, err, says)
		}
		if n > maxEmpty+1 {
			t.Errorf("%d pages were asked for", n)
		}
	}
}

func TestWhereTheBucketStands(t *testing.T) {
	for _, tt := range []struct{ raw, endpoint, addressing, region, want string }{
		{"s3://bucket/k", "", "", "", "https://bucket.s3.amazonaws.com/k"},
		{"s3://bucket/k", "", "", "eu-west-1", "https://bucket.s3.eu-west-1.amazonaws.com/k"},
		{"s3://dotted.bucket/k", "", "", "", "https://s3.amazonaws.com/dotted.bucket/k"},
		{"s3://bucket/k", "minio:9000", "", "", "https://minio:9000/bucket/k"},
		{"s3://bucket/k", "minio:9000", "virtual", "", "https://bucket.minio:9000/k"},
		{"s3://bucket/k", "s3.amazonaws.com", "path", "", "https://s3.amazonaws.com/bucket/k"},
		{"s3://bucket/a%20b", "minio:9000", "", "", "https://minio:9000/bucket/a%2520b"},
		{"s3://bucket/a b+ü", "minio:9000", "", "", "https://minio:9000/bucket/a%20b%2B%C3%BC"},
	} {
		src := open(t, tt.raw, plan.S3{Endpoint: tt.endpoint, Addressing: tt.addressing, Region: tt.region}, plan.Credentials{})
		if got := src.object(src.key).String(); got != tt.want {
			t.Errorf("%s at %q: got %s, want %s", tt.raw, tt.endpoint, got, tt.want)
		}
	}
}

func TestACancelEndsAListing(t *testing.T) {
	s := storagetest.Serve(t, storagetest.NewFiles(), storagetest.Always(storagetest.Silent()))
	ctx, cancel := context.WithCancel(t.Context())
	s.Watch(func(*http.Request) { cancel() })
	err := open(t, "s3://models/m/", service(s), keys).List(ctx, func(source.Object) error { return nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
}

func FuzzListing(f *testing.F) {
	f.Add("<ListBucketResult><EncodingType>url</EncodingType><Contents><Key>m/a%20b</Key><Size>1</Size><ETag>&quot;x&quot;</ETag></Contents></ListBucketResult>")
	f.Add("<ListBucketResult><IsTruncated>true</IsTruncated><Contents><Key>m/</Key></Contents></ListBucketResult>")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := readPage(strings.NewReader(text))
		if err != nil {
			return
		}
		for _, e := range p.Contents {
			o, err := e.object("m/")
			if err == nil && (o.Size < 0 || !strings.HasPrefix(o.Key, "m/") || o.Folder && o.Size > 0) {
				t.Fatalf("%+v became %+v", e, o)
			}
		}
	})
}
