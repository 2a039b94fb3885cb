// SPDX-License-Identifier: Apache-2.0

// Package source says what a place to fetch from must offer: a list of its
// files, and ranges of their bytes that are tied to one version of each.
package source
