// SPDX-License-Identifier: Apache-2.0

// Package conformance runs critest, the suite of Kubernetes' CRI tools, on a
// node whose pods all run with our shim, and compares with results.tsv. It does
// so once with gVisor's own shim too, on the same node: that column says what is
// to be expected of a shim around runsc.
//
//	results.tsv   spec, result with ours, result with gVisor's, why it isn't pass
//	busybox       builds the image's programs
//	standin/      the programs that aren't in busybox
//	hostport/     host ports without a firewall
//
// critest pulls its images by their usual names; a registry in the test's process
// answers for all of them.
package conformance
