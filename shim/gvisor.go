// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"sync"
	_ "unsafe" // for go:linkname

	_ "gvisor.dev/gvisor/pkg/shim/v1/utils" // has the variable
)

// kubeletPodsDir is where gVisor's own rewrite, which runs after ours, looks for
// volumes. It has no setting for it, and fails the pod where kubelet's root is
// another: gvisor.dev/gvisor pkg/shim/v1/utils/volumes.go:kubeletPodsDir.
//
//go:linkname kubeletPodsDir gvisor.dev/gvisor/pkg/shim/v1/utils.kubeletPodsDir
var kubeletPodsDir string

var podsDirMu sync.Mutex

// setPodsDir points gVisor's rewrite at the pod's folder. A shim serves one
// pod, so it changes at most once, before gVisor's service reads it.
func setPodsDir(dir string) {
	podsDirMu.Lock()
	defer podsDirMu.Unlock()
	if dir != "" && kubeletPodsDir != dir {
		kubeletPodsDir = dir
	}
}
