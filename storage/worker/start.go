// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
)

// Command starts one worker.
type Command struct {
	// Path of the binary, absolute: see Find.
	Path string
	// NetNS is the path of the network namespace to work in, "" for ours.
	NetNS string
	// ResolvConf is the file to resolve names by, "" for the node's.
	ResolvConf string
	// Start starts a child and returns how to wait for it: a shim reaps all
	// its children itself.
	Start func(*exec.Cmd) (wait func() (status int, err error), err error)
	// Started is told the process before it gets its request. An error ends it.
	Started func(pid int) error
	// Meter returns how many more bytes a metered worker may read, once it may; 0
	// when ctx ends first. nil for workers that aren't metered.
	Meter func(ctx context.Context) int64
}

// How long a worker may take to end: it is asked, then killed.
const (
	grace     = 1500 * time.Millisecond // of two seconds in all
	killGrace = 300 * time.Millisecond
)

// maxEvent is the longest line taken from a worker, bytes.
const maxEvent = 1 << 20

// Run has a worker do req, and calls on for each of its events, from one
// goroutine. It returns once the process has ended, two seconds after the end
// of ctx at the latest: then with the cause of ctx's end. A failure that the
// worker reports is an *Error.
func (c Command) Run(ctx context.Context, req Request, on func(Event)) (*Report, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	p, err := c.start(req.Dir)
	if err != nil {
		return nil, fmt.Errorf("start the worker %s: %w", c.Path, err)
	}
	defer p.close()
	if c.Started != nil {
		if err := c.Started(p.cmd.Process.Pid); err != nil {
			p.kill()
			return nil, errors.Join(err, p.await(killGrace))
		}
	}
	clean := newScrubber(req)
	line, err := json.Marshal(req)
	if err != nil {
		p.kill()
		return nil, errors.Join(fmt.Errorf("encode the worker's request: %w", err), p.await(killGrace))
	}
	asks := make(chan struct{}, 1)
	feeding, stop := context.WithCancel(ctx)
	var feeder sync.WaitGroup
	feeder.Go(func() { c.feed(feeding, p.stdin, append(line, '\n'), asks) })
	defer feeder.Wait()
	defer p.close() // ends a write that nobody reads
	defer stop()

	results := make(chan outcome, 1)
	go func() {
		o := read(p.stdout, clean, asks, on)
		if o.err != nil {
			p.kill() // nobody reads on: it would wait for ever
		}
		results <- o
	}()
	select {
	case <-p.exited:
		// The pipe still has what the worker wrote before it ended.
		_ = p.stdout.SetReadDeadline(time.Now().Add(grace))
		o := <-results
		if errors.Is(o.err, os.ErrDeadlineExceeded) {
			o.err = nil // a child of its own holds the pipe, and goes with the group
		}
		return o.result(c.Path, p, clean)
	case <-ctx.Done():
		err := p.stop()
		_ = p.stdout.Close() // ends the reader, even of a worker that won't
		<-results            // on is never called after Run
		if err != nil {
			return nil, fmt.Errorf("%w; %w", context.Cause(ctx), err)
		}
		return nil, context.Cause(ctx)
	}
}

// process is a running worker.
type process struct {
	cmd    *exec.Cmd
	stdin  *os.File // ours to write; its end tells the worker to stop
	stdout *os.File // ours to read
	stderr *tail
	exited chan struct{}
	// status is valid once exited is closed.
	status  int
	waitErr error
}

// start starts the process on a thread that lives as long as it does: the
// kernel sends the parent-death signal when that thread ends.
func (c Command) start(volume string) (*process, error) {
	args := []string{"worker"}
	if volume != "" {
		args = append(args, "--volume", volume)
	}
	if c.NetNS != "" {
		args = append(args, "--netns", c.NetNS)
	}
	if c.ResolvConf != "" {
		args = append(args, "--resolv-conf", c.ResolvConf)
	}
	cmd := exec.Command(c.Path, args...)
	cmd.Env = []string{} // nothing of containerd's
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: unix.SIGKILL}
	p := &process{cmd: cmd, stderr: newTail(), exited: make(chan struct{})}
	theirs, err := p.pipes()
	if err != nil {
		return nil, err
	}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		wait, err := c.Start(cmd)
		started <- err
		if err != nil {
			return
		}
		p.status, p.waitErr = wait()
		close(p.exited)
	}()
	err = <-started
	for _, f := range theirs {
		_ = f.Close()
	}
	if err != nil {
		p.close()
		return nil, err
	}
	go p.stderr.drain()
	return p, nil
}

// pipes connects the process's standard streams and returns its ends of them.
func (p *process) pipes() (theirs []*os.File, err error) {
	var ours []*os.File
	defer func() {
		if err != nil {
			for _, f := range append(ours, theirs...) {
				_ = f.Close()
			}
		}
	}()
	pair := func() (r, w *os.File) {
		if err == nil {
			r, w, err = os.Pipe()
		}
		return r, w
	}
	inR, inW := pair()
	outR, outW := pair()
	errR, errW := pair()
	if err != nil {
		return nil, fmt.Errorf("make pipes: %w", err)
	}
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = inR, outW, errW
	p.stdin, p.stdout, p.stderr.from = inW, outR, errR
	return []*os.File{inR, outW, errW}, nil
}

// feed writes the request to a worker, and then a grant for each that it asks
// for. A worker that ends early makes it fail: its exit says more.
func (c Command) feed(ctx context.Context, to io.Writer, request []byte, asks <-chan struct{}) {
	if _, err := to.Write(request); err != nil || c.Meter == nil {
		return
	}
	lines := json.NewEncoder(to)
	for {
		select {
		case <-asks:
		case <-ctx.Done():
			return
		}
		n := c.Meter(ctx)
		if n == 0 || lines.Encode(Grant{Bytes: n}) != nil {
			return
		}
	}
}

// stop ends the process: its stdin closes, it gets SIGTERM, then SIGKILL.
func (p *process) stop() error {
	_ = p.stdin.Close()
	_ = p.cmd.Process.Signal(unix.SIGTERM)
	if p.await(grace) == nil {
		return nil
	}
	p.kill()
	return p.await(killGrace)
}

func (p *process) kill() { _ = p.cmd.Process.Kill() }

// await waits for the end of the process, at most for d.
func (p *process) await(d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-p.exited:
		return nil
	case <-timer.C:
		return fmt.Errorf("the worker (process %d) does not end: %w", p.cmd.Process.Pid, errdefs.ErrInternal)
	}
}

func (p *process) close() {
	_ = p.stdin.Close()
	_ = p.stdout.Close()
	_ = p.stderr.from.Close()
}

// outcome is what a worker's output came to.
type outcome struct {
	report  *Report
	failure *Failure
	err     error
}

// read takes events until the worker closes its output, or writes what is none.
// Of several asks one counts that nobody has answered yet.
func read(from io.Reader, clean scrubber, asks chan<- struct{}, on func(Event)) (o outcome) {
	lines := bufio.NewReaderSize(from, 64<<10)
	for {
		line, err := ReadLine(lines, maxEvent)
		switch {
		case errors.Is(err, ErrLongLine):
			o.err = fmt.Errorf("the worker wrote a line of more than %d bytes", maxEvent)
			return o
		case errors.Is(err, io.EOF):
			return o
		case err != nil:
			o.err = err
			return o
		}
		var e Event
		if err := json.Unmarshal(line, &e); err != nil {
			o.err = errors.New("the worker wrote a line that is no event")
			return o
		}
		clean.event(&e)
		switch {
		case e.Ask != nil:
			select {
			case asks <- struct{}{}:
			default:
			}
			continue
		case e.Report != nil:
			o.report = e.Report
		case e.Failure != nil:
			o.failure = e.Failure
		}
		if on != nil {
			on(e)
		}
	}
}

// result tells how the worker ended, by what it said and by its exit.
func (o outcome) result(path string, p *process, clean scrubber) (*Report, error) {
	switch {
	case o.err != nil:
		return nil, fmt.Errorf("the worker %s was ended: %w: %w", path, o.err, errdefs.ErrUnavailable)
	case o.failure != nil:
		return nil, &Error{*o.failure}
	case o.report != nil && p.status == 0 && p.waitErr == nil:
		return o.report, nil
	}
	err := fmt.Errorf("the worker %s ended with exit status %d and no report: %w", path, p.status, errdefs.ErrUnavailable)
	if p.status > 128 {
		err = fmt.Errorf("the worker %s was killed by signal %d (%s); the next attempt goes on from what it has fetched: %w",
			path, p.status-128, unix.SignalName(syscall.Signal(p.status-128)), errdefs.ErrUnavailable)
	}
	if said := clean.string(p.stderr.String()); said != "" {
		err = fmt.Errorf("%w; it said: %s", err, said)
	}
	return nil, err
}
