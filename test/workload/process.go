// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil/report"
)

func pause([]string) error {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, unix.SIGINT, unix.SIGTERM)
	<-stop
	return nil
}

func sleep(args []string) error {
	d, err := time.ParseDuration(args[0])
	if err != nil {
		return err
	}
	time.Sleep(d)
	return nil
}

func exit(args []string) error {
	code, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	os.Exit(code)
	return nil
}

func crash(args []string) error {
	file, err := os.OpenFile(args[0], os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if errors.Is(err, os.ErrExist) {
		return pause(nil)
	}
	if err != nil {
		return err
	}
	defer file.Close()
	return errors.New("crashed as told")
}

func kill(args []string) error {
	pid, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	return unix.Kill(pid, unix.SIGTERM)
}

func serve(args []string) error {
	server := http.Server{
		Addr:              args[0],
		ReadHeaderTimeout: 10 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, args[1])
		}),
	}
	return server.ListenAndServe()
}

func env(args []string) error {
	if len(args) == 0 {
		for _, line := range os.Environ() {
			fmt.Println(line)
		}
		return nil
	}
	value, ok := os.LookupEnv(args[0])
	if !ok {
		return fmt.Errorf("%s is not set", args[0])
	}
	fmt.Println(value)
	return nil
}

func uname([]string) error {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(report.Kernel{
		Sysname:  unix.ByteSliceToString(name.Sysname[:]),
		Release:  unix.ByteSliceToString(name.Release[:]),
		Version:  unix.ByteSliceToString(name.Version[:]),
		Hostname: unix.ByteSliceToString(name.Nodename[:]),
	})
}

func dmesg([]string) error {
	buf := make([]byte, 1<<20)
	n, err := unix.Klogctl(unix.SYSLOG_ACTION_READ_ALL, buf)
	if err != nil {
		return fmt.Errorf("read the kernel log: %w", err)
	}
	_, err = os.Stdout.Write(buf[:n])
	return err
}

func get(args []string) error {
	reply, err := http.Get(args[0])
	if err != nil {
		return err
	}
	defer reply.Body.Close()
	if reply.StatusCode != http.StatusOK {
		return errors.New(reply.Status)
	}
	_, err = io.Copy(os.Stdout, reply.Body)
	return err
}

func resolve(args []string) error {
	addresses, err := net.LookupHost(args[0])
	for _, address := range addresses {
		fmt.Println(address)
	}
	return err
}
