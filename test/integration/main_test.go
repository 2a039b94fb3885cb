// SPDX-License-Identifier: Apache-2.0

// Package integration holds the tests of the whole: a real containerd, the
// real shim and worker, a real runsc, and servers to download from.
package integration

import (
	"testing"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/node"
)

func TestMain(m *testing.M) {
	testutil.Main(m, node.Options{})
}
