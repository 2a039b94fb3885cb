// SPDX-License-Identifier: Apache-2.0

// Package preview says what the pods of a manifest would get from the shim,
// without a node: downloads, mounts, variables, and what is wrong with them.
package preview
