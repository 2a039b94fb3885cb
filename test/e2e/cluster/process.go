// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// component is a running program of Kubernetes.
type component struct {
	name string
	cmd  *exec.Cmd
	log  string
	done chan struct{} // closed when it has ended
}

// start starts a program of bin/tools with its output in a file.
func (c *Cluster) start(name string, args ...string) (*component, error) {
	p := &component{name: name, log: filepath.Join(dir, name+".log"), done: make(chan struct{})}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p.cmd = exec.Command(filepath.Join(c.tools, name), args...)
	p.cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + dir}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	c.Node.Adopt(p.cmd.Process.Pid)
	go func() {
		_ = p.cmd.Wait() // whoever cares looks at the log
		close(p.done)
	}()
	return p, nil
}

// alive is an error once the program has ended.
func (p *component) alive() error {
	select {
	case <-p.done:
		return fmt.Errorf("%s has ended: %s", p.name, tail(p.log, 20))
	default:
		return nil
	}
}

// stop ends the program: by SIGTERM, and if that takes too long by SIGKILL.
func (p *component) stop(patience time.Duration) {
	_ = p.cmd.Process.Signal(unix.SIGTERM)
	select {
	case <-p.done:
		return
	case <-time.After(patience):
	}
	_ = p.cmd.Process.Kill()
	<-p.done
}

// tail is the end of a text file.
func tail(file string, lines int) string {
	content, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(content), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
