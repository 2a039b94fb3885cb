// SPDX-License-Identifier: Apache-2.0

// Package version holds the version that both binaries were built as.
package version

// Version is set by the linker from git; shim and worker compare it.
var Version = "devel"
