// SPDX-License-Identifier: Apache-2.0

// Package runsctest holds what volumes writes against runsc's own parser. It is
// apart from the other tests, since runsc's code can't be built for fuzzing.
package runsctest
