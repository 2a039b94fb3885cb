// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"testing"
	"time"
)

func TestAProcessThatNobodyUsesEnds(t *testing.T) {
	never := make(chan struct{})
	there := func() bool { return false }
	if awaitUse(never, there, time.Hour, time.Millisecond) {
		t.Error("a process without a Create lives on")
	}
	if awaitUse(never, func() bool { return true }, time.Millisecond, time.Hour) {
		t.Error("a process without a bundle lives on")
	}
	used := make(chan struct{})
	close(used)
	if !awaitUse(used, there, time.Hour, time.Hour) {
		t.Error("a process that is used ends")
	}
}

func TestTheFirstCreateIsTold(t *testing.T) {
	s, _ := newTestService()
	told := 0
	s.use = func() { told++ }
	_, c, err := s.begin(t.Context(), "box")
	if err != nil {
		t.Fatal(err)
	}
	s.end("box", c)
	if told != 1 {
		t.Errorf("told %d times", told)
	}
}
