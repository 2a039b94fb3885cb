// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sedna-io/containerd-shim-sedna/storage/storagetest"
)

// terminal opens a pair of them: what is written to one end is read at the other.
func terminal(t *testing.T) (screen, end *os.File) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no terminal to be had: %v", err)
	}
	t.Cleanup(func() { screen.Close() })
	n, err := unix.IoctlGetInt(int(screen.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(screen.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Skipf("no terminal to be had: %v", err)
	}
	end, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no terminal to be had: %v", err)
	}
	if err := unix.IoctlSetWinsize(int(end.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 120}); err != nil {
		t.Fatal(err)
	}
	return screen, end
}

func TestFetchShowsBarsOnATerminalAndLinesElsewhere(t *testing.T) {
	web := storagetest.NewFiles()
	web.Put("/model.bin", storagetest.Bytes(20<<20))
	s := storagetest.Serve(t, web, nil)
	s.Pace(16 << 10)
	screen, end := terminal(t)
	shown := make(chan string)
	go func() {
		var b bytes.Buffer
		_, _ = io.Copy(&b, screen) // until the other end is closed, EIO
		shown <- b.String()
	}()
	var out bytes.Buffer
	root := newRoot()
	// One connection takes some hundred frames.
	root.SetArgs([]string{"fetch", "--concurrency", "1", s.URL + "/model.bin", t.TempDir()})
	root.SetOut(&out)
	root.SetErr(end)
	err := root.ExecuteContext(t.Context())
	end.Close()
	text := <-shown
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"model.bin", "total", "MiB / ", "B/s"} {
		if !strings.Contains(text, want) {
			t.Errorf("the terminal shows no %q: %q", want, text[:min(len(text), 2000)])
		}
	}
	if !strings.HasPrefix(out.String(), "1 files, 20 MiB in ") {
		t.Errorf("the output is %q", out.String())
	}

	s.Pace(0)
	_, status, err := sedna(t.Context(), "fetch", s.URL+"/model.bin", t.TempDir())
	if err != nil || strings.Contains(status, "\x1b") {
		t.Errorf("without a terminal: %q, %v", status, err)
	}
}

func TestNamesCantWriteToTheTerminalWhatTheyLike(t *testing.T) {
	for name, want := range map[string]string{
		"model-ä.bin": "model-ä.bin", "a\x1b[2Jb": "a?[2Jb", "a\u202eb": "a?b", "a\u2066b\u200fc": "a?b?c", "a\nb\u009bc": "a?b?c",
	} {
		if got := printable(name); got != want {
			t.Errorf("%q becomes %q, want %q", name, got, want)
		}
	}
}
