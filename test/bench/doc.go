// SPDX-License-Identifier: Apache-2.0

// Package bench holds the benchmarks that docs/performance.md quotes. They are
// reports to read, no gates: a busy machine must not fail a build.
package bench
