// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// ownBudget has a test's budgets share a file of its own.
func ownBudget(t *testing.T) string {
	t.Helper()
	previous := budgetFile
	budgetFile = filepath.Join(t.TempDir(), "sedna", "bandwidth")
	t.Cleanup(func() { budgetFile = previous })
	return budgetFile
}

func opened(t *testing.T, rate int64, most int) *budget {
	t.Helper()
	b, err := openBudget(rate, most)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.close)
	return b
}

// The file is what downloads share, so that their grants stand in one row,
// whoever asks, and each has the same time.
func TestGrantsOfAllDownloadsStandInOneRow(t *testing.T) {
	ownBudget(t)
	one, other := opened(t, 100<<20, 8), opened(t, 100<<20, 8)
	now := monotonic()
	var begins []time.Duration
	for _, b := range []*budget{one, other, other, one} {
		begins = append(begins, time.Duration(b.reserve(now)-now).Round(time.Millisecond))
	}
	if want := "[0s 100ms 200ms 300ms]"; fmt.Sprint(begins) != want {
		t.Errorf("grants begin after %v, want %s", begins, want)
	}
	if n := one.size(); n != 10<<20 {
		t.Errorf("a grant is of %d bytes, want those of 100 ms", n)
	}
}

func TestNobodySavesBandwidthUp(t *testing.T) {
	ownBudget(t)
	b := opened(t, 100<<20, 8)
	now := monotonic()
	b.reserve(now)
	now += int64(time.Hour)
	if first, second := b.reserve(now)-now, b.reserve(now)-now; first != 0 || second != int64(b.takes()) {
		t.Errorf("after an hour grants begin after %v and %v", time.Duration(first), time.Duration(second))
	}
}

// What stands in the file may be another boot's, or somebody's who meant harm.
func TestAnAccountThatCannotBeHoldsNobodyUp(t *testing.T) {
	file := ownBudget(t)
	b := opened(t, 1<<20, 2)
	for _, until := range []int64{-1 << 62, 1<<63 - 1, monotonic() + int64(time.Hour)} {
		b.until.Store(until)
		now := monotonic()
		if begin := b.reserve(now); begin != now {
			t.Errorf("with %d in %s the next grant begins after %v", until, file, time.Duration(begin-now))
		}
	}
}

func TestAGrantEndsWithItsDownload(t *testing.T) {
	ownBudget(t)
	b := opened(t, 1, 8) // a grant takes most of a day
	b.reserve(monotonic())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if n := b.grant(ctx); n != 0 {
		t.Errorf("granted %d bytes", n)
	}
}

// Processes that are killed in the middle of everything hold nobody up.
func TestKilledDownloadsLeaveTheBandwidthToOthers(t *testing.T) {
	file := ownBudget(t)
	cmd := exec.Command(os.Args[0], "-test.run", "^TestGrantsForEver$")
	cmd.Env = append(os.Environ(), "SHIM_TEST_BUDGET="+file)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_, err = out.Read(make([]byte, 1)) // it takes grants now
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if err != nil {
		t.Fatal(err)
	}
	b := opened(t, 1<<30, 8)
	now := monotonic()
	if wait := time.Duration(b.reserve(now) - now); wait > 2*b.takes() {
		t.Errorf("the next grant begins after %v", wait)
	}
}

// TestGrantsForEver is what another process runs.
func TestGrantsForEver(t *testing.T) {
	file := os.Getenv("SHIM_TEST_BUDGET")
	if file == "" {
		t.Skip("it is for another process")
	}
	budgetFile = file
	b := opened(t, 1<<30, 8)
	for {
		b.grant(t.Context())
		fmt.Print(".")
	}
}

func TestRunningDownloadsAreCounted(t *testing.T) {
	previous := slotsDir
	slotsDir = t.TempDir()
	t.Cleanup(func() { slotsDir = previous })
	if n := takenSlots(4); n != 0 {
		t.Errorf("%d run, want none", n)
	}
	release, err := takeSlot(t.Context(), 4, nil)
	if err != nil {
		t.Fatal(err)
	}
	if n := takenSlots(4); n != 1 {
		t.Errorf("%d run, want 1", n)
	}
	release()
	if n := takenSlots(4); n != 0 {
		t.Errorf("%d run, want none again", n)
	}
}

func TestANodeWithoutAnAccountLimitsEachDownload(t *testing.T) {
	previous := budgetFile
	budgetFile = filepath.Join(t.TempDir(), strconv.Itoa(os.Getpid()), strings.Repeat("x", 300))
	t.Cleanup(func() { budgetFile = previous })
	if _, err := openBudget(1, 1); err == nil {
		t.Error("an account was opened under a name that can't be")
	}
}
