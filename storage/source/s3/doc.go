// SPDX-License-Identifier: Apache-2.0

// Package s3 fetches objects and whole prefixes from an S3 service.
//
// A name is a path prefix, never a string prefix: `s3://b/m` is the object m,
// or else all objects below `m/`, and never `m-logs`.
package s3
