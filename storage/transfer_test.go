// SPDX-License-Identifier: Apache-2.0

package storage

import "testing"

// What all connections may hold unwritten at the moment of a kill is a part of
// the twentieth of a file that the next run may fetch again.
func TestConnectionsTogetherHoldLittleOfAFile(t *testing.T) {
	for _, readers := range []int64{1, 4, 32, 256} {
		for size := int64(minPart); size <= 64<<30; size = size*3 + 1 {
			tr := newTransfer(job{}, readers)
			tr.size = size
			p := &part{span: span{0, size}}
			parts := min(readers, (size+minPart-1)/minPart)
			if _, n := tr.ahead(p, bufferSize); int64(n)*parts > size/20 {
				t.Errorf("%d connections hold %d bytes each of %d", parts, n, size)
			}
		}
	}
}
