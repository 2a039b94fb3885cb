// SPDX-License-Identifier: Apache-2.0

package shim

// removePod takes back what a sandbox's preparation has made on the node, by
// what lies in its bundle. It may run again and again, in any process.
func removePod(bundle string) error {
	return removeWorker(bundle)
}
