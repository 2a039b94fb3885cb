// SPDX-License-Identifier: Apache-2.0

package s3

import (
	"net/url"

	"github.com/minio/minio-go/v7/pkg/s3utils"

	"github.com/sedna-io/containerd-shim-sedna/storage/plan"
)

// defaultRegion is what services of one's own usually expect.
const defaultRegion = "us-east-1"

// endpoint is the service that is asked.
type endpoint struct {
	host       string
	insecure   bool
	addressing string // "path", "virtual", or "" and "auto"
}

func (e endpoint) url() url.URL {
	if e.insecure {
		return url.URL{Scheme: "http", Host: e.host}
	}
	return url.URL{Scheme: "https", Host: e.host}
}

// virtual says whether the bucket stands in the host's name. Services of one's
// own seldom have the DNS entries for it; the clouds that do are known.
func (e endpoint) virtual(bucket string) bool {
	switch e.addressing {
	case "path":
		return false
	case "virtual":
		return true
	}
	return s3utils.IsVirtualHostSupported(e.url(), bucket)
}

// region is the one in the endpoint's own name, "" if it names none.
func (e endpoint) region() string { return s3utils.GetRegionFromURL(e.url()) }

// regional is the host that serves a region: AWS's global name knows all
// buckets but serves those of one region.
func (e endpoint) regional(region string) string {
	if e.host == plan.DefaultEndpoint && region != "" && region != defaultRegion {
		return "s3." + region + ".amazonaws.com"
	}
	return e.host
}
