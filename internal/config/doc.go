// SPDX-License-Identifier: Apache-2.0

// Package config loads the node's config.toml: defaults, units, and no key
// that is unknown, of the wrong type or impossible.
package config
