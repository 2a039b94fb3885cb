// SPDX-License-Identifier: Apache-2.0

// Package isolate runs a program on a machine of its own: the program
// re-executes itself in new mount, network, IPC and PID namespaces with empty
// folders where containerd, CNI and kubelet keep their things.
//
//	go test (or go run)      the node's network, the node's processes
//	 '- outer                waits, relays signals, sweeps cgroups at the end
//	     '- init             pid 1 of the new namespaces: mounts, reaps orphans
//	         '- main         the tests, and everything that they start
//
// When any of the three dies, however it dies, the kernel ends the others and
// all that they started. What namespaces don't hold are cgroups: everything
// started in here puts them below Cgroup.
package isolate
