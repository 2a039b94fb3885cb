// SPDX-License-Identifier: Apache-2.0

// Command badworker is a worker that misbehaves, by the name it is called by.
package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"time"
)

var ways = map[string]func(){
	// deaf ignores its end of input and every signal that can be ignored.
	"deaf": func() { signal.Ignore(); say(progress); sleep() },
	// garbled writes what is no event.
	"garbled": func() { say("<html>502 Bad Gateway</html>\n"); sleep() },
	// endless writes a line that doesn't end.
	"endless": func() { forever(bytes.Repeat([]byte("x"), 1<<20)) },
	// chatty writes events for ever, as fast as it can.
	"chatty": func() { forever(bytes.Repeat([]byte(progress+line), 1<<10)) },
	// fertile leaves a child behind.
	"fertile": func() {
		say(progress)
		child := exec.Command(os.Args[0])
		child.Args[0] = "deaf"
		child.Stdout = os.Stdout
		_ = child.Start()
	},
	// silent says nothing at first.
	"silent": sleep,
	// done has reported, and doesn't end.
	"done": func() { say(`{"report":{"items":[],"bytes":1,"fetched":1,"files":1,"duration":1}}` + "\n"); sleep() },
	// It stands in for a gofer that nobody ends, too.
	"runsc-gofer": sleep,
	// mute ends well and says nothing.
	"mute": func() {},
}

const (
	progress = `{"progress":{"bytes":1,"fetched":1,"files":0,"rate":1}}` + "\n"
	line     = `{"log":{"level":"info","message":"so it goes"}}` + "\n"
)

func main() {
	_, _ = bufio.NewReader(os.Stdin).ReadBytes('\n') // the request comes once its control group is there
	ways[filepath.Base(os.Args[0])]()
}

func say(text string) { fmt.Print(text) }

func forever(text []byte) {
	for {
		if _, err := os.Stdout.Write(text); err != nil {
			return
		}
	}
}

func sleep() { time.Sleep(time.Hour) }
