// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"testing"

	taskapi "github.com/containerd/containerd/api/runtime/task/v2"
	"gvisor.dev/gvisor/pkg/shim/v1/proc"
)

// exit takes the end that was reported, if there is one.
func exitOf(id string) (status int, ok bool) {
	select {
	case e := <-proc.ExitCh:
		return e.Status, e.ID == id
	default:
		return 0, false
	}
}

func TestTheEndOfAContainerThatNeverRunsIsReported(t *testing.T) {
	s, n := newTestService()
	s.keep("pod", &record{bundle: t.TempDir()})
	s.made("pod")
	if _, err := s.Kill(t.Context(), &taskapi.KillRequest{ID: "pod", Signal: 9}); err != nil {
		t.Error(err)
	}
	<-n.calls
	if status, ok := exitOf("pod"); !ok || status != 137 {
		t.Errorf("killed before its start: %d, %t", status, ok)
	}
	if _, err := s.Start(t.Context(), &taskapi.StartRequest{ID: "pod"}); err == nil {
		t.Error("it started")
	}
	if status, ok := exitOf("pod"); !ok || status != 128 {
		t.Errorf("after a start that failed: %d, %t", status, ok)
	}
	// From here on gVisor's service watches for itself.
	s.started("pod")
	if _, err := s.Kill(t.Context(), &taskapi.KillRequest{ID: "pod", Signal: 9}); err != nil {
		t.Error(err)
	}
	<-n.calls
	if status, ok := exitOf("pod"); ok {
		t.Errorf("a running container was reported to have ended with %d", status)
	}
}
