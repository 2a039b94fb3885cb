// SPDX-License-Identifier: Apache-2.0

// Command hostport is a chained CNI plugin that maps host ports by a process of
// its own for each pod. The usual plugin writes firewall rules, for which not
// every machine has the tools or the kernel.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// folder holds a file with the forwarder's pid for each pod that has one.
const folder = "/run/sedna-test/hostports"

// input is what the plugin reads on stdin: the CNI specification 1.0.0.
type input struct {
	PrevResult    json.RawMessage `json:"prevResult"`
	RuntimeConfig struct {
		PortMappings []mapping `json:"portMappings"`
	} `json:"runtimeConfig"`
}

type mapping struct {
	HostPort      int `json:"hostPort"`
	ContainerPort int `json:"containerPort"`
}

func main() {
	err := run()
	if err == nil {
		return
	}
	_ = json.NewEncoder(os.Stdout).Encode(map[string]any{"cniVersion": "1.0.0", "code": 100, "msg": err.Error()})
	os.Exit(1)
}

func run() error {
	if len(os.Args) > 1 && os.Args[1] == "forward" {
		return forward(os.Args[2:])
	}
	switch os.Getenv("CNI_COMMAND") {
	case "ADD":
		return add()
	case "DEL":
		return remove()
	case "VERSION":
		fmt.Println(`{"cniVersion":"1.0.0","supportedVersions":["0.4.0","1.0.0"]}`)
	}
	return nil
}

func pidFile() string { return filepath.Join(folder, filepath.Base(os.Getenv("CNI_CONTAINERID"))) }

// add starts a forwarder for the pod's host ports, and passes on what the
// plugins before it have said.
func add() error {
	var in input
	if err := json.NewDecoder(os.Stdin).Decode(&in); err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	args, err := forwards(in)
	if err != nil {
		return err
	}
	if len(args) > 0 {
		if err := start(args); err != nil {
			return fmt.Errorf("start the forwarder: %w", err)
		}
	}
	_, err = os.Stdout.Write(in.PrevResult)
	return err
}

// forwards lists the pod's host ports, each followed by the address that it
// leads to.
func forwards(in input) ([]string, error) {
	var result struct {
		IPs []struct {
			Address string `json:"address"`
		} `json:"ips"`
	}
	if err := json.Unmarshal(in.PrevResult, &result); err != nil || len(result.IPs) == 0 {
		return nil, fmt.Errorf("find the pod's address in %s: %w", in.PrevResult, err)
	}
	ip, _, err := net.ParseCIDR(result.IPs[0].Address)
	if err != nil {
		return nil, err
	}
	var args []string
	for _, m := range in.RuntimeConfig.PortMappings {
		if m.HostPort > 0 {
			args = append(args, ":"+strconv.Itoa(m.HostPort), net.JoinHostPort(ip.String(), strconv.Itoa(m.ContainerPort)))
		}
	}
	return args, nil
}

func start(args []string) error {
	cmd := exec.Command("/proc/self/exe", append([]string{"forward"}, args...)...)
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	return os.WriteFile(pidFile(), []byte(strconv.Itoa(cmd.Process.Pid)), 0o600)
}

// remove ends the forwarder; the pod may have none, and may be removed twice.
func remove() error {
	text, err := os.ReadFile(pidFile())
	if err != nil {
		return nil //nolint:nilerr // none
	}
	pid, err := strconv.Atoi(string(text))
	if err != nil {
		return err
	}
	if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
		return err
	}
	return os.Remove(pidFile())
}

// forward listens at every first of two arguments for the second.
func forward(args []string) error {
	var all sync.WaitGroup
	for i := 0; i+1 < len(args); i += 2 {
		listener, err := net.Listen("tcp", args[i])
		if err != nil {
			return err
		}
		to := args[i+1]
		all.Go(func() { accept(listener, to) })
	}
	all.Wait()
	return nil
}

func accept(listener net.Listener, to string) {
	for {
		from, err := listener.Accept()
		if err != nil {
			return
		}
		go join(from, to)
	}
}

func join(from net.Conn, address string) {
	defer from.Close()
	to, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer to.Close()
	go func() { _, _ = io.Copy(to, from) }()
	_, _ = io.Copy(from, to)
}
