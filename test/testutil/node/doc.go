// SPDX-License-Identifier: Apache-2.0

// Package node is a Kubernetes node without Kubernetes: containerd with the
// runtime handlers of a test, a pod network, and the part of kubelet that pods
// see: volumes, logs, cgroups and calls through the CRI.
//
// It belongs into the namespaces of package isolate and keeps everything at
// fixed places there:
//
//	/run/sedna-test/
//	  containerd.toml, .sock, .log     and its root/ and state/
//	  handlers/NAME.toml               the ConfigPath of each runtime handler
//	  cni/BRIDGE/                      configuration of a pod network
//	  kubelet/pods/UID/volumes/...     volumes, as kubelet lays them out
//	  pods/NAMESPACE_NAME_UID/         container logs
//
// The packages below testutil return errors and know nothing of *testing.T, so
// that the demo and the benchmarks can use them too.
package node
