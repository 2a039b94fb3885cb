// SPDX-License-Identifier: Apache-2.0

// Package cluster is Kubernetes on one machine: etcd, the API server, the
// controller manager, the scheduler and one kubelet, with a node of package
// testutil/node below it.
//
// It belongs into the namespaces of package isolate, where it has the places that
// Kubernetes has by default to itself:
//
//	/etc                      the machine's, with what is written there in memory
//	/etc/containerd/sedna/    config.toml as deploy/ has it
//	/var/lib/kubelet          volumes
//	/var/log/pods             logs of containers
//	/run/sedna-test           containerd, see testutil/node
//	/run/sedna-e2e            keys, configuration and logs of the components
//
// The shim's handler and RuntimeClass are those of deploy/, unchanged.
package cluster
