// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"os"
	"strings"
	"sync"
)

// tail keeps the beginning of what a worker writes to its standard error: a Go
// program that crashes says why in its first lines.
type tail struct {
	from *os.File
	mu   sync.Mutex
	kept []byte // guarded by mu
}

// maxTail bounds what is kept, bytes.
const maxTail = 512

func newTail() *tail { return &tail{} }

// drain reads until the worker is gone or from is closed.
func (t *tail) drain() {
	buf := make([]byte, 4096)
	for {
		n, err := t.from.Read(buf)
		t.mu.Lock()
		t.kept = append(t.kept, buf[:min(n, maxTail-len(t.kept))]...)
		t.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// String returns what was kept as one line.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Join(strings.Fields(string(t.kept)), " ")
}
