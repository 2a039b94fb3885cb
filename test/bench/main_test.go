// SPDX-License-Identifier: Apache-2.0

// Package bench measures what docs/performance.md says. It compares in pairs,
// one run of ours and one of the other by turns, so that whatever else happens on
// the machine hits both alike.
package bench

import (
	"testing"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/node"
)

func TestMain(m *testing.M) {
	testutil.Main(m, node.Options{LogLevel: "warn"})
}
