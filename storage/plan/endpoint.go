// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"strings"
)

// DefaultEndpoint is the S3 service where nobody names one.
const DefaultEndpoint = "s3.amazonaws.com"

func checkRegion(value string) *fault {
	if !regionName.matches(value) {
		return faultf("write it like us-east-1", "%s is no region", show(value))
	}
	return nil
}

// ParseEndpoint checks an S3 endpoint, HOST or HOST:PORT with or without
// http:// or https://. Insecure is nil where there is no scheme.
func ParseEndpoint(value string) (host string, insecure *bool, err error) {
	host, insecure, f := parseEndpoint(value)
	if f != nil {
		return "", nil, f
	}
	return host, insecure, nil
}

func parseEndpoint(value string) (string, *bool, *fault) {
	const hint = "write HOST, HOST:PORT or https://HOST:PORT"
	host := value
	var insecure *bool
	if scheme, rest, ok := strings.Cut(value, "://"); ok {
		plain := strings.EqualFold(scheme, "http")
		if !plain && !strings.EqualFold(scheme, "https") {
			return "", nil, faultf(hint, "the endpoint's scheme is neither http nor https")
		}
		host, insecure = rest, &plain
	}
	host = strings.TrimSuffix(host, "/")
	switch {
	case strings.Contains(host, "@"):
		return "", nil, faultf("put keys into a secret volume and name it by `secret`", "the endpoint has credentials in it")
	case strings.ContainsAny(host, "?#"):
		return "", nil, faultf(hint, "the endpoint has a query or fragment")
	case strings.Contains(host, "/"):
		return "", nil, faultf(hint, "the endpoint %s has a path; an S3 endpoint is a host", show(value))
	case !goodHost(host):
		return "", nil, faultf(hint, "%s is no valid endpoint", show(value))
	}
	return host, insecure, nil
}

// Endpoint says which host serves the download and whether by plain http: for
// s3 what the annotations say, else what the credentials say, else the
// default. A scheme written with an endpoint decides for that endpoint.
func (d Download) Endpoint(c Credentials) (host string, insecure bool, err error) {
	if d.URL.Scheme != "s3" {
		return d.URL.Host, d.URL.Scheme == "http", nil
	}
	plain := d.S3.Insecure
	switch {
	case d.S3.Endpoint != "":
		host = d.S3.Endpoint
	case c.Endpoint != "":
		host = c.Endpoint
		if c.Insecure != nil {
			plain = c.Insecure
		}
	default:
		host = DefaultEndpoint
	}
	if !goodHost(host) {
		_, _, err := ParseEndpoint(host)
		return "", false, err
	}
	return host, plain != nil && *plain, nil
}

// Region is what the annotations say, else what the credentials say; "" means
// that the server is asked.
func (d Download) Region(c Credentials) string {
	if d.S3.Region != "" {
		return d.S3.Region
	}
	return c.Region
}
