// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"

	"github.com/sedna-io/containerd-shim-sedna/storage/plan"
)

// The test binary is its own worker: `worker` is the first argument that Command
// passes, and the name of the request's pod says how to behave.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "worker" {
		os.Exit(fakeWorker(os.Args[2:]))
	}
	if len(os.Args) > 2 && os.Args[1] == "parent" {
		os.Exit(parent(os.Args[2]))
	}
	os.Exit(m.Run())
}

func fakeWorker(args []string) int {
	out := json.NewEncoder(os.Stdout)
	if place := placeOf(args); place != (Place{}) {
		// On another thread than the one that was forked, as may happen.
		runtime.LockOSThread()
		entered := make(chan error)
		go func() {
			entered <- Enter(place, []string{os.Args[0], "worker"}, func(lack string) {
				_ = out.Encode(Event{Log: &Log{Message: "lacks: " + lack}})
			})
		}()
		fmt.Fprintln(os.Stderr, <-entered)
		return 1
	}
	if err := Settle(); err != nil {
		return 4
	}
	var req Request
	lines := bufio.NewReader(os.Stdin)
	line, err := lines.ReadBytes('\n')
	if err != nil || json.Unmarshal(line, &req) != nil {
		return 3
	}
	switch req.Pod.Name {
	case "report":
		_ = out.Encode(Event{Progress: &Progress{Bytes: 5}})
		_ = out.Encode(Event{Report: &Report{Bytes: 7, Files: 1604800}})
	case "failure":
		_ = out.Encode(Event{Failure: &Failure{Kind: "not_found", Message: "no such bucket"}})
		return 1
	case "asking":
		for range 3 {
			_ = out.Encode(Event{Ask: &Ask{}})
			line, _ := lines.ReadString('\n')
			_ = out.Encode(Event{Log: &Log{Message: strings.TrimSpace(line)}})
		}
		_ = out.Encode(Event{Report: &Report{}})
	case "greedy":
		for range 1000 {
			_ = out.Encode(Event{Ask: &Ask{}})
		}
		_ = out.Encode(Event{Progress: &Progress{}})
		hang()
	case "garbage":
		fmt.Println("this is no event")
	case "endless line":
		for chunk := strings.Repeat("x", 4096); ; {
			if _, err := os.Stdout.WriteString(chunk); err != nil {
				return 1
			}
		}
	case "silent exit":
		return 7
	case "crash":
		panic("index out of range while reading " + req.Items[0].URL.Reveal())
	case "killed":
		_ = unix.Kill(os.Getpid(), unix.SIGKILL)
		hang()
	case "stubborn":
		signal.Ignore(unix.SIGTERM)
		_ = out.Encode(Event{Progress: &Progress{}})
		hang()
	case "until stdin ends":
		signal.Ignore(unix.SIGTERM)
		_ = out.Encode(Event{Progress: &Progress{}})
		_, _ = os.Stdin.Read(make([]byte, 1))
	case "environment":
		_ = out.Encode(Event{Log: &Log{Message: strings.Join(os.Environ(), " ")}})
		_ = out.Encode(Event{Report: &Report{}})
	case "hog":
		_ = out.Encode(Event{Progress: &Progress{}})
		hog(256 << 20)
	case "attack":
		attack(req.Dir, func(try, result string) { _ = out.Encode(Event{Log: &Log{Level: try, Message: result}}) })
		_ = out.Encode(Event{Report: &Report{}})
	case "inside":
		_ = out.Encode(Event{Log: &Log{Message: inside()}})
		_ = out.Encode(Event{Report: &Report{}})
	case "leak":
		_ = out.Encode(Event{Failure: &Failure{Kind: "unavailable", Message: "GET " + req.Items[0].URL.Reveal() + " as " + req.Items[0].Credentials.SecretKey.Reveal()}})
		return 1
	}
	return 0
}

func placeOf(args []string) Place {
	var p Place
	for i := 0; i+1 < len(args); i += 2 {
		switch args[i] {
		case "--netns":
			p.NetNS = args[i+1]
		case "--resolv-conf":
			p.ResolvConf = args[i+1]
		case "--volume":
			p.Volume = args[i+1]
			p.oldKernel = strings.HasSuffix(p.Volume, oldKernel)
		}
	}
	return p
}

// inside tells what a worker sees of its surroundings.
func inside() string {
	resolv, _ := os.ReadFile("/etc/resolv.conf")
	hosts, _ := os.ReadFile("/etc/hosts")
	ns, _ := os.Readlink("/proc/self/ns/net")
	return fmt.Sprintf("%s|%s|%s", ns, resolv, hosts)
}

// start is what a program without a reaper of its own does.
func start(cmd *exec.Cmd) (func() (int, error), error) {
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return func() (int, error) {
		err := cmd.Wait()
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			if status := exit.Sys().(syscall.WaitStatus); status.Signaled() {
				return 128 + int(status.Signal()), nil
			}
			return exit.ExitCode(), nil
		}
		return 0, err
	}, nil
}

func command(t *testing.T) Command {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return Command{Path: self, Start: start}
}

const canary = "s3cr3t-canary"

func request(t *testing.T, behaviour string) Request {
	t.Helper()
	u, err := plan.ParseURL("https://user:" + canary + "-password@host/file?X-Amz-Signature=" + canary + "-signature")
	if err != nil {
		t.Fatal(err)
	}
	return Request{Pod: Pod{Name: behaviour}, Items: []Item{{
		Download:    plan.Download{Mounts: []string{"model"}, URL: u, Path: "host/file"},
		Credentials: plan.Credentials{SecretKey: plan.NewSecret(canary + "-key/+")},
	}}}
}

func TestRunReturnsTheReport(t *testing.T) {
	var bytes []int64
	report, err := command(t).Run(t.Context(), request(t, "report"), func(e Event) {
		if e.Progress != nil {
			bytes = append(bytes, e.Progress.Bytes)
		}
	})
	if err != nil || report.Bytes != 7 {
		t.Fatalf("got %+v, %v; want the report with 7 bytes", report, err)
	}
	if len(bytes) != 1 || bytes[0] != 5 {
		t.Errorf("progress: got %v, want [5]", bytes)
	}
}

func TestASecretThatIsAWordOfTheProtocolHidesNoReport(t *testing.T) {
	for _, secret := range []string{"report", "progress", "604800"} {
		u, err := plan.ParseURL("https://host/file?X-Amz-Expires=" + secret)
		if err != nil {
			t.Fatal(err)
		}
		req := request(t, "report")
		req.Items[0].URL = u
		seen := false
		report, err := command(t).Run(t.Context(), req, func(e Event) { seen = seen || e.Progress != nil })
		if err != nil || report.Bytes != 7 || report.Files != 1604800 || !seen {
			t.Errorf("%q: got %+v, %v, progress %t; want all of the report", secret, report, err, seen)
		}
	}
}

func TestRunSaysHowAWorkerFailed(t *testing.T) {
	for _, tt := range []struct {
		behaviour string
		is        func(error) bool
		text      string
	}{
		{"failure", errdefs.IsNotFound, "no such bucket"},
		{"garbage", errdefs.IsUnavailable, "a line that is no event"},
		{"endless line", errdefs.IsUnavailable, "more than 1048576 bytes"},
		{"silent exit", errdefs.IsUnavailable, "exit status 7 and no report"},
		{"killed", errdefs.IsUnavailable, "killed by signal 9 (SIGKILL)"},
		{"crash", errdefs.IsUnavailable, "index out of range while reading"},
		{"no such behaviour", errdefs.IsUnavailable, "exit status 0 and no report"},
	} {
		t.Run(tt.behaviour, func(t *testing.T) {
			_, err := command(t).Run(t.Context(), request(t, tt.behaviour), nil)
			if err == nil || !tt.is(err) || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("got %v; want it to say %q", err, tt.text)
			}
			if err != nil && strings.Contains(err.Error(), canary) {
				t.Errorf("a secret is in the error: %v", err)
			}
		})
	}
}

func TestRunHidesWhatAWorkerLeaks(t *testing.T) {
	_, err := command(t).Run(t.Context(), request(t, "leak"), func(e Event) {
		if e.Failure != nil && strings.Contains(e.Failure.Message, canary) {
			t.Errorf("a secret is in an event: %s", e.Failure.Message)
		}
	})
	if err == nil || strings.Contains(err.Error(), canary) || !strings.Contains(err.Error(), "REDACTED") {
		t.Errorf("got %v; want it without the secrets", err)
	}
}

func TestRunEndsTheWorkerWithItsContext(t *testing.T) {
	why := errors.New("the pod was killed")
	for _, behaviour := range []string{"stubborn", "until stdin ends"} {
		t.Run(behaviour, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			c := command(t)
			var pid int
			c.Started = func(p int) error { pid = p; return nil }
			_, err := c.Run(ctx, request(t, behaviour), func(Event) { cancel(why) })
			if !errors.Is(err, why) {
				t.Errorf("got %v, want the cause of the cancellation", err)
			}
			if err := unix.Kill(pid, 0); !errors.Is(err, unix.ESRCH) {
				t.Errorf("process %d is still there: %v", pid, err)
			}
		})
	}
}

func TestRunEndsAWorkerThatCannotBeRecorded(t *testing.T) {
	c := command(t)
	var pid int
	full := errors.New("no space left on device")
	c.Started = func(p int) error { pid = p; return full }
	if _, err := c.Run(t.Context(), request(t, "stubborn"), nil); !errors.Is(err, full) {
		t.Errorf("got %v, want %v", err, full)
	}
	if err := unix.Kill(pid, 0); !errors.Is(err, unix.ESRCH) {
		t.Errorf("process %d is still there: %v", pid, err)
	}
}

func TestAWorkerInheritsNoEnvironment(t *testing.T) {
	t.Setenv("AWS_SECRET_ACCESS_KEY", canary)
	_, err := command(t).Run(t.Context(), request(t, "environment"), func(e Event) {
		if e.Log != nil && e.Log.Message != "" {
			t.Errorf("environment: %s", e.Log.Message)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestRunSaysThatTheWorkerIsMissing(t *testing.T) {
	c := command(t)
	c.Path = "/nowhere/sedna-storage"
	if _, err := c.Run(t.Context(), request(t, "report"), nil); err == nil || !strings.Contains(err.Error(), c.Path) {
		t.Errorf("got %v, want it to name %s", err, c.Path)
	}
}

func TestFindSaysWhereItLooked(t *testing.T) {
	t.Setenv("PATH", "/nowhere/bin")
	_, err := Find("sedna-storage-of-no-build")
	if err == nil || !errdefs.IsFailedPrecondition(err) {
		t.Fatalf("got %v, want a failed precondition", err)
	}
	for _, want := range []string{"sedna-storage-of-no-build", "/nowhere/bin", "[storage] worker"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %q, want it to name %s", err, want)
		}
	}
}

func TestAMeteredWorkerGetsWhatItAsksFor(t *testing.T) {
	c := command(t)
	n := int64(0)
	c.Meter = func(context.Context) int64 { n++; return n << 10 }
	var got []string
	_, err := c.Run(t.Context(), request(t, "asking"), func(e Event) {
		if e.Log != nil {
			got = append(got, e.Log.Message)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := `[{"bytes":1024} {"bytes":2048} {"bytes":3072}]`; fmt.Sprint(got) != want {
		t.Errorf("it was granted %v, want %s", got, want)
	}
}

// hang waits to be killed, by a system call: a Go program whose goroutines all
// wait for each other ends itself.
func hang() {
	for {
		_ = unix.Pause()
	}
}

// A worker that asks without end waits for one grant like all others, and ends
// with its context in the middle of it.
func TestAWorkerHasOneGrantUnderWay(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("the pod was killed")
	c := command(t)
	asked := 0
	c.Meter = func(ctx context.Context) int64 { asked++; <-ctx.Done(); return 0 }
	_, err := c.Run(ctx, request(t, "greedy"), func(Event) { cancel(why) })
	if !errors.Is(err, why) || asked > 1 {
		t.Errorf("the meter was asked %d times, then %v", asked, err)
	}
}

func TestAnItemTravelsWhole(t *testing.T) {
	insecure := true
	want := request(t, "").Items[0]
	want.Dir, want.Digest, want.S3.Insecure = true, "sha256:00", &insecure
	want.Credentials.Headers = map[string]plan.Secret{"X-Token": plan.NewSecret(canary)}
	want.Credentials.From = `the pod's volume "keys"`
	data, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got Item
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if again, _ := json.Marshal(got); string(again) != string(data) {
		t.Errorf("got  %s\nwant %s", again, data)
	}
	if got.Credentials.SecretKey.Reveal() != want.Credentials.SecretKey.Reveal() || got.URL.Reveal() != want.URL.Reveal() {
		t.Error("the secrets didn't arrive")
	}
	// Every other way to print an item hides them.
	if text := fmt.Sprintf("%v %+v %#v", got.Credentials, got, got.URL); strings.Contains(text, canary) {
		t.Errorf("a secret is in %s", text)
	}
}

func TestScrubbingKnowsTheFormsOfASecret(t *testing.T) {
	clean := newScrubber(request(t, ""))
	for _, text := range []string{
		canary + "-key/+", canary + "-key%2F%2B", "?X-Amz-Signature=" + canary + "-signature&more", canary + "-password",
	} {
		if got := clean.string(text); strings.Contains(got, canary) {
			t.Errorf("%q became %q", text, got)
		}
	}
	for _, secret := range []string{canary + "-key/+", "user:" + canary + "-password"} {
		if text := base64.StdEncoding.EncodeToString([]byte(secret)); strings.Contains(clean.string("Basic "+text), text) {
			t.Errorf("%q shows in base64", secret)
		}
	}
}

func TestEnterShowsThePodsNetworkAndNames(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("entering namespaces needs root")
	}
	ns := netNS(t)
	resolv := t.TempDir() + "/resolv.conf"
	if err := os.WriteFile(resolv, []byte("nameserver 10.96.0.10\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	c := command(t)
	c.NetNS, c.ResolvConf = ns, resolv
	var seen string
	if _, err := c.Run(t.Context(), request(t, "inside"), func(e Event) {
		if e.Log != nil {
			seen = e.Log.Message
		}
	}); err != nil {
		t.Fatal(err)
	}
	link, err := os.Readlink(ns)
	if err != nil {
		t.Fatal(err)
	}
	if !hasLandlock() {
		link = "" // and no /proc in the worker's root
	}
	if want := link + "|nameserver 10.96.0.10\n|" + hosts; seen != want {
		t.Errorf("inside: got %q, want %q", seen, want)
	}
	if outside := inside(); strings.Contains(outside, "10.96.0.10") {
		t.Errorf("the node sees the pod's names: %q", outside)
	}
}

// netNS makes a network namespace and returns a path to it.
func netNS(t *testing.T) string {
	t.Helper()
	cmd := exec.Command("sleep", "60")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET, Pdeathsig: unix.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Skipf("no network namespace to be had: %v", err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return fmt.Sprintf("/proc/%d/ns/net", cmd.Process.Pid)
}

func TestEnterSaysWhichNamespaceIsMissing(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("entering namespaces needs root")
	}
	c := command(t)
	c.NetNS = "/run/netns/cni-gone"
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := c.Run(ctx, request(t, "inside"), nil)
	if err == nil || !strings.Contains(err.Error(), c.NetNS) {
		t.Errorf("got %v, want it to name %s", err, c.NetNS)
	}
}
