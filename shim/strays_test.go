// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"os"
	"os/exec"
	"testing"
)

// child starts a process that goes by another name.
func child(t *testing.T, name, id string) (ended chan error) {
	t.Helper()
	cmd := exec.Command("sh", "-c", "read forever", id)
	cmd.Args[0] = name
	if _, err := cmd.StdinPipe(); err != nil { // it reads for ever
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended = make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return ended
}

func TestStraysOfOneContainerAreEnded(t *testing.T) {
	sandbox, gofer := child(t, "runsc-sandbox", "box"), child(t, "/usr/bin/runsc-gofer", "box")
	others := []chan error{child(t, "runsc-gofer", "other"), child(t, "sedna-storage", "box")}
	if err := endStrays("box", os.Getpid()); err != nil {
		t.Fatal(err)
	}
	<-sandbox
	<-gofer
	for _, other := range others {
		select {
		case err := <-other:
			t.Errorf("another process ended too: %v", err)
		default:
		}
	}
}
