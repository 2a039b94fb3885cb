// SPDX-License-Identifier: Apache-2.0

// Package plan turns a pod's annotations into a checked list of what to fetch,
// what to mount and which variables to set, and touches nothing while it does.
//
// An annotation speaks for the pod or for one mount, by whether its key has a
// dot after the prefix:
//
//	storage.sedna.io/volume: models                        the pod
//	storage.sedna.io/yolo.url: s3://kubeedge/yolo/v3.pb    the mount "yolo"
//	storage.sedna.io/yolo.env: MODEL_URL
//
// Each URL of a mount becomes one of these:
//
//	s3, obs, http, https  readonly   Download at HOST/PATH below the volume
//	                      writeonly  nothing; the variable holds the URL
//	/path                            HostPath at /hostpath/path
//	file:///path                     nothing; the variable holds the path
//
// Everything here is written by strangers. A plan names no path outside the
// download volume and /hostpath; whoever opens those paths still opens them
// beneath a held directory, since a plan knows names and not what is on disk.
package plan
