// SPDX-License-Identifier: Apache-2.0

// Command standin plays the few programs of critest's images that aren't in
// busybox, as far as the specs look at them. Its own name says which:
//
//	nginx, httpd   serve a page at the port of the second argument; /proc/1/cmdline
//	               shows the first, "master process", and /var/run/nginx.pid the pid
//	nnp            says its effective uid: the file is root's and setuid
//	pause          waits for a signal
package main

import (
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

func main() {
	name := filepath.Base(os.Args[0])
	if err := play(name, os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

func play(name string, args []string) error {
	switch name {
	case "nginx", "httpd":
		if len(args) != 2 {
			return fmt.Errorf("want a title and a port, have %q", args)
		}
		return serve(name, args[1])
	case "nnp":
		fmt.Printf("Effective uid: %d\n", os.Geteuid())
		return nil
	case "pause":
		wait()
		return nil
	}
	return fmt.Errorf("no program that this can play")
}

// serve writes the pid where nginx does, and serves every path.
func serve(name, port string) error {
	fmt.Println(name, "serves port", port)
	pid := strconv.Itoa(os.Getpid()) + "\n"
	if err := os.WriteFile("/var/run/"+name+".pid", []byte(pid), 0o644); err != nil {
		return err
	}
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "Welcome to", name) })
	go func() {
		wait()
		os.Exit(0)
	}()
	return http.ListenAndServe(":"+port, page)
}

func wait() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM, unix.SIGQUIT)
	<-signals
}
