// SPDX-License-Identifier: Apache-2.0

// Package storage fetches what a pod asked for into its volume: each item from
// its source, checked, to its place, with a report or one error for a person.
package storage
