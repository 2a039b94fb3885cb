// SPDX-License-Identifier: Apache-2.0

// Package manifest finds the pods in Kubernetes manifests and remembers on
// which line everything stands.
//
// It knows no kinds: a pod is every object with a spec that has containers,
// wherever it is nested. So it finds the template of a Deployment, of a CronJob
// and of kinds that don't exist yet.
package manifest
