// SPDX-License-Identifier: Apache-2.0

// Package deploy tests what operators run: deploy/install.sh against plain
// folders, and against the containerds whose configuration it writes, by what
// they themselves say that they read. It needs neither root nor a running
// containerd.
package deploy
