// SPDX-License-Identifier: Apache-2.0

// Package layout has tests of the source tree itself: who may import whom, and
// how packages and files introduce themselves.
package layout
