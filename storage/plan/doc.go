// SPDX-License-Identifier: Apache-2.0

// Package plan turns a pod's annotations into a checked list of what to fetch,
// what to mount and which variables to set, and touches nothing while it does.
package plan
