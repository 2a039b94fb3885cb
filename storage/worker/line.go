// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"bufio"
	"errors"
)

// ErrLongLine is a line that is longer than its reader takes.
var ErrLongLine = errors.New("a line that is too long")

// ReadLine reads up to a line feed, which it keeps, and at most so many bytes:
// both ends of the door bound what the other may make them hold.
func ReadLine(r *bufio.Reader, most int) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > most {
			return nil, ErrLongLine
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}
