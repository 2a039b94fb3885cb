// SPDX-License-Identifier: Apache-2.0

// Package volumes finds a pod's volume folders on the node and changes the
// words of an OCI spec: gVisor's mount hints, mounts and variables.
package volumes
