// SPDX-License-Identifier: Apache-2.0

package worker

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_X86_64

// refusedHere are calls of this architecture that other calls replaced.
var refusedHere = []uint32{unix.SYS_FORK, unix.SYS_VFORK, unix.SYS_KEXEC_FILE_LOAD}
