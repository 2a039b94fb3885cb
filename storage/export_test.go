// SPDX-License-Identifier: Apache-2.0

package storage

import "time"

func init() {
	// Faults pass, or prove lasting, in no time.
	patience.Base, patience.Max = time.Millisecond, 10*time.Millisecond
}

// PourAlways has all be poured that can be.
func PourAlways() (undo func()) {
	was := deep
	deep = 1
	return func() { deep = was }
}

// AnotherBoot has this process think that the machine was started again.
func AnotherBoot() (undo func()) {
	was := bootID
	bootID = func() string { return "another" }
	return func() { bootID = was }
}
