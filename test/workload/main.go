// SPDX-License-Identifier: Apache-2.0

// Command workload is what runs inside the pods of the tests: one small static
// program that is the pause image, the application and the tools to look around
// with. Answers that tests read are JSON, one value per line.
package main

import (
	"fmt"
	"os"
	"sort"
	"strings"
)

// command does one thing, then the program ends.
type command struct {
	usage string
	args  int // how many it needs at least
	run   func(args []string) error
}

var commands = map[string]command{
	"pause":   {"pause: wait for a signal to end", 0, pause},
	"sleep":   {"sleep DURATION: then exit 0", 1, sleep},
	"exit":    {"exit CODE", 1, exit},
	"crash":   {"crash FILE: exit 1 and leave the file; wait for a signal where it exists", 1, crash},
	"kill":    {"kill PID: send SIGTERM", 1, kill},
	"tree":    {"tree DIR: a line of JSON with size and sha256 for every file below", 1, tree},
	"env":     {"env [NAME]: all variables, or the value of one; exit 1 when it isn't set", 0, env},
	"cat":     {"cat FILE", 1, cat},
	"write":   {"write FILE TEXT: create or replace a file", 2, write},
	"remove":  {"remove FILE", 1, remove},
	"chmod":   {"chmod FILE: try to make it 0777", 1, chmod},
	"mkdir":   {"mkdir DIR", 1, mkdir},
	"stat":    {"stat PATH: JSON with mode, owner, size and file system", 1, stat},
	"mounts":  {"mounts: /proc/mounts", 0, func([]string) error { return cat([]string{"/proc/mounts"}) }},
	"watch":   {"watch DIR...: say ready, then print each file that inotify reports as written, to one called end", 1, watch},
	"fill":    {"fill FILE BYTES: create or replace a file of this size", 2, fill},
	"shm":     {"shm NAME [TEXT]: put a text into shared memory as shm_open does, or print it", 1, shm},
	"wait":    {"wait FILE: return when it exists", 1, waitFor},
	"get":     {"get URL: print the body of an http answer", 1, get},
	"serve":   {"serve ADDRESS TEXT: answer http requests with the text", 2, serve},
	"resolve": {"resolve NAME: print its addresses", 1, resolve},
	"uname":   {"uname: JSON of what the kernel calls itself", 0, uname},
	"dmesg":   {"dmesg: the kernel's log", 0, dmesg},
}

func main() {
	if len(os.Args) < 2 {
		usage()
	}
	cmd, ok := commands[os.Args[1]]
	if !ok || len(os.Args)-2 < cmd.args {
		usage()
	}
	if err := cmd.run(os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func usage() {
	lines := make([]string, 0, len(commands))
	for _, cmd := range commands {
		lines = append(lines, "  "+cmd.usage)
	}
	sort.Strings(lines)
	fmt.Fprintf(os.Stderr, "workload COMMAND [ARGS]\n%s\n", strings.Join(lines, "\n"))
	os.Exit(2)
}
