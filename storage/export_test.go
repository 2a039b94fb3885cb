// SPDX-License-Identifier: Apache-2.0

package storage

import "time"

func init() {
	// Faults pass, or prove lasting, in no time.
	patience.Base, patience.Max = time.Millisecond, 10*time.Millisecond
}
