// SPDX-License-Identifier: Apache-2.0

//go:build !amd64 && !arm64

package worker

const auditArch = 0

var refusedHere []uint32
