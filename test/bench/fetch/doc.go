// SPDX-License-Identifier: Apache-2.0

// Package fetch races `sedna-storage fetch` with its peers, for the figures of
// docs/performance.md. They are reports to read, no gates: a busy machine must
// not fail a build.
package fetch
