// SPDX-License-Identifier: Apache-2.0

// Package config loads the node's config.toml: defaults, units, and no key
// that is unknown, of the wrong type or impossible.
//
// One file serves gVisor's shim, which reads its own keys at the top level and
// ignores the rest, and ours, which are the tables. What is wrong with a file
// is reported all at once, each mistake with its line and key. Nothing here
// opens any other file that the configuration names.
package config
