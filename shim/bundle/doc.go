// SPDX-License-Identifier: Apache-2.0

// Package bundle reads the config.json of an OCI bundle, tells which pod it
// belongs to, and saves it whole or not at all.
package bundle
