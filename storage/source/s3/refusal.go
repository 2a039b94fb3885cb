// SPDX-License-Identifier: Apache-2.0

package s3

import (
	"encoding/xml"
	"fmt"
	"net/http"
	"time"

	"github.com/containerd/errdefs"

	"github.com/sedna-io/containerd-shim-sedna/storage/source"
	"github.com/sedna-io/containerd-shim-sedna/storage/source/ranged"
)

// regionError says that the bucket is served from another region.
type regionError struct{ region string }

func (e *regionError) Error() string { return "the bucket is in region " + e.region }

// reason is the body of an S3 error.
type reason struct {
	XMLName xml.Name `xml:"Error"`
	Code    string
	Region  string
}

// explain knows S3's own error codes.
func (s *Source) explain(resp *http.Response, body []byte) *source.Error {
	var r reason
	_ = xml.Unmarshal(body, &r) // what can't be read has no code
	if region := first(r.Region, resp.Header.Get("X-Amz-Bucket-Region")); s.elsewhere(resp.StatusCode, r.Code, region) {
		return &source.Error{
			Kind: errdefs.ErrInvalidArgument, Err: &regionError{region},
			Why:  fmt.Sprintf("the bucket %q is in region %q, not in %q", s.bucket, region, *s.region.Load()),
			Hint: "set storage.sedna.io/s3-region",
		}
	}
	said := fmt.Sprintf("the server answered %d %s", resp.StatusCode, r.Code)
	switch r.Code {
	case "NoSuchBucket":
		return notFound(fmt.Sprintf("there is no bucket %q at %s (%s)", s.bucket, s.where.host, said))
	case "NoSuchKey":
		return notFound(said)
	case "AccessDenied", "AllAccessDisabled", "AccountProblem", "InvalidAccessKeyId", "SignatureDoesNotMatch",
		"InvalidToken", "ExpiredToken", "TokenRefreshRequired", "XAdminUserNotFound":
		e := &source.Error{
			Kind: errdefs.ErrPermissionDenied, Why: said + " " + s.client.Identity(), Hint: ranged.AccessHint(s.client.Who),
		}
		switch r.Code {
		case "InvalidAccessKeyId", "XAdminUserNotFound": // the second is VersityGW's
			e.Hint = "the access key is unknown to the server"
		case "SignatureDoesNotMatch":
			e.Hint = "the secret key is wrong"
		case "ExpiredToken", "TokenRefreshRequired", "InvalidToken":
			e.Hint = "the session token has expired or is wrong"
		}
		return e
	case "RequestTimeTooSkewed", "RequestExpired":
		return &source.Error{
			Kind: errdefs.ErrPermissionDenied,
			Why:  said + ": this node's clock differs from the server's" + skew(resp.Header.Get("Date")),
			Hint: "set the clock right",
		}
	case "SlowDown", "ServiceUnavailable", "InternalError", "RequestTimeout", "ThrottlingException", "Throttling", "RequestLimitExceeded":
		return &source.Error{Kind: errdefs.ErrUnavailable, Why: said, Transient: true}
	case "InvalidObjectState":
		return &source.Error{Kind: errdefs.ErrUnavailable, Why: said, Hint: "the object is archived: restore it first"}
	}
	if e := s.client.Status(resp); r.Code != "" {
		e.Why += " (" + clip(r.Code) + ")"
		return e
	}
	return nil
}

// clip bounds what a server says about itself.
func clip(s string) string { return s[:min(len(s), 60)] }

// elsewhere says whether an answer means "ask in that region".
func (s *Source) elsewhere(status int, code, region string) bool {
	if region == "" || region == *s.region.Load() {
		return false
	}
	switch code {
	case "PermanentRedirect", "TemporaryRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException", "InvalidRegion":
		return true
	}
	switch status {
	case http.StatusMovedPermanently, http.StatusTemporaryRedirect, http.StatusBadRequest, http.StatusForbidden:
		return code == "" // an answer to HEAD has no body to name a code
	}
	return false
}

// skew tells by how much the clocks differ, if the server said its time.
func skew(date string) string {
	t, err := http.ParseTime(date)
	if err != nil {
		return ""
	}
	return fmt.Sprintf(" by %s", time.Since(t).Abs().Round(time.Second))
}
