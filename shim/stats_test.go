// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	cgroup1 "github.com/containerd/cgroups/v3/cgroup1/stats"
	cgroup2 "github.com/containerd/cgroups/v3/cgroup2/stats"
	taskapi "github.com/containerd/containerd/api/runtime/task/v2"
	"github.com/containerd/containerd/api/types/task"
	"github.com/containerd/typeurl/v2"
	"gvisor.dev/gvisor/pkg/shim/v1/extension"
)

// gvisorStats stands in for gVisor's service.
type gvisorStats struct {
	extension.TaskServiceExt
	metrics any // answered while running
	state   task.Status
}

var errStopped = errors.New("cannot stat a stopped container")

func (g *gvisorStats) Stats(context.Context, *taskapi.StatsRequest) (*taskapi.StatsResponse, error) {
	if g.state != task.Status_RUNNING || g.metrics == nil {
		return nil, errStopped
	}
	data, err := typeurl.MarshalAnyToProto(g.metrics)
	return &taskapi.StatsResponse{Stats: data}, err
}

func (g *gvisorStats) State(context.Context, *taskapi.StateRequest) (*taskapi.StateResponse, error) {
	return &taskapi.StateResponse{Status: g.state}, nil
}

// sandboxWith makes process 7 of a machine whose files are given by their paths.
func sandboxWith(t *testing.T, membership string, files map[string]string) {
	t.Helper()
	root := t.TempDir()
	files["proc/7/cgroup"] = membership
	for name, text := range files {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	procBefore, cgroupBefore := procRoot, cgroupRoot
	t.Cleanup(func() { procRoot, cgroupRoot = procBefore, cgroupBefore })
	procRoot, cgroupRoot = filepath.Join(root, "proc"), filepath.Join(root, "cgroup")
}

// statsOf asks for a container's metrics as containerd does.
func statsOf(t *testing.T, s *Service) any {
	t.Helper()
	resp, err := s.Stats(t.Context(), &taskapi.StatsRequest{ID: "box"})
	if err != nil {
		t.Fatal(err)
	}
	metrics, err := typeurl.UnmarshalAny(resp.Stats)
	if err != nil {
		t.Fatal(err)
	}
	return metrics
}

func measuredService(t *testing.T, g *gvisorStats) *Service {
	t.Helper()
	s := over(g)
	s.measure("box")
	s.locate(t.Context(), "box", 7)
	return s
}

func TestStatsCountKillsForWantOfMemory(t *testing.T) {
	const v1 = "12:cpu,cpuacct:/elsewhere\n4:hugetlb,memory:/pod/box\n0::/elsewhere\n"
	old := &cgroup1.Metrics{CPU: &cgroup1.CPUStat{Usage: &cgroup1.CPUUsage{Total: 5}}}
	for _, tt := range []struct {
		name, membership string
		files            map[string]string
		metrics          any
		want             uint64
	}{
		{"version 1", v1, map[string]string{"cgroup/memory/pod/box/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"}, old, 3},
		{"version 2", "0::/pod/box\n", map[string]string{"cgroup/pod/box/memory.events": "low 0\nhigh 0\nmax 9\noom 4\noom_kill 3\noom_group_kill 0\n"}, &cgroup2.Metrics{}, 3},
		// gVisor's form follows its own flag, not the machine.
		{"version 2, old form", "0::/pod/box\n", map[string]string{"cgroup/pod/box/memory.events": "oom 4\noom_kill 3\n"}, old, 3},
		{"none yet", v1, map[string]string{"cgroup/memory/pod/box/memory.oom_control": "oom_kill 0\n"}, old, 0},
		{"group gone", v1, map[string]string{}, old, 0},
		{"no memory controller", "4:cpu:/pod/box\n", map[string]string{}, old, 0},
		{"outside of the namespace", "0::/../pod/box\n", map[string]string{}, old, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sandboxWith(t, tt.membership, tt.files)
			s := measuredService(t, &gvisorStats{metrics: tt.metrics, state: task.Status_RUNNING})
			switch m := statsOf(t, s).(type) {
			case *cgroup1.Metrics:
				if m.MemoryOomControl == nil || m.MemoryOomControl.OomKill != tt.want {
					t.Errorf("got %v", m.MemoryOomControl)
				}
				if m.CPU.Usage.Total != 5 {
					t.Error("what gVisor says is lost")
				}
			case *cgroup2.Metrics:
				if m.MemoryEvents == nil || m.MemoryEvents.OomKill != tt.want || m.MemoryEvents.Oom != 4 || m.MemoryEvents.Max != 9 {
					t.Errorf("got %v", m.MemoryEvents)
				}
			}
		})
	}
}

func TestStatsOutliveTheContainer(t *testing.T) {
	sandboxWith(t, "4:memory:/box\n", map[string]string{"cgroup/memory/box/memory.oom_control": "oom_kill 1\n"})
	g := &gvisorStats{state: task.Status_RUNNING, metrics: &cgroup1.Metrics{
		CPU:    &cgroup1.CPUStat{Usage: &cgroup1.CPUUsage{Total: 5}},
		Memory: &cgroup1.MemoryStat{Usage: &cgroup1.MemoryEntry{Usage: 1 << 20}},
		Pids:   &cgroup1.PidsStat{Current: 3},
	}}
	s := measuredService(t, g)
	statsOf(t, s)
	g.state = task.Status_STOPPED
	m := statsOf(t, s).(*cgroup1.Metrics)
	if m.CPU.Usage.Total != 5 || m.MemoryOomControl.OomKill != 1 {
		t.Errorf("what it took altogether is lost: %v", m)
	}
	if m.Memory.Usage.Usage != 0 || m.Pids.Current != 0 {
		t.Errorf("it has still something in use: %v", m)
	}
	// The kills stay known when the group goes.
	if err := os.RemoveAll(cgroupRoot); err != nil {
		t.Fatal(err)
	}
	if m := statsOf(t, s).(*cgroup1.Metrics); m.MemoryOomControl.OomKill != 1 {
		t.Errorf("the count went with the group: %v", m.MemoryOomControl)
	}
}

func TestStatsOfAContainerThatWasNeverMeasuredHaveItsKills(t *testing.T) {
	sandboxWith(t, "0::/box\n", map[string]string{"cgroup/box/memory.events": "oom_kill 1\n"})
	m, ok := statsOf(t, measuredService(t, &gvisorStats{state: task.Status_STOPPED})).(*cgroup2.Metrics)
	if !ok || m.MemoryEvents.OomKill != 1 || m.CPU == nil || m.Memory == nil || m.Pids == nil {
		t.Errorf("got %v", m)
	}
}

func TestStatsKeepGVisorsErrorsForARunningContainer(t *testing.T) {
	sandboxWith(t, "0::/box\n", map[string]string{})
	s := measuredService(t, &gvisorStats{state: task.Status_RUNNING})
	if _, err := s.Stats(t.Context(), &taskapi.StatsRequest{ID: "box"}); err == nil || !strings.Contains(err.Error(), errStopped.Error()) {
		t.Errorf("got %v", err)
	}
}

func TestStatsAreGVisorsOwnWhereTheNodeSaysSo(t *testing.T) {
	s := over(&gvisorStats{state: task.Status_STOPPED})
	if _, err := s.Stats(t.Context(), &taskapi.StatsRequest{ID: "box"}); !errors.Is(err, errStopped) {
		t.Errorf("got %v", err)
	}
}

func TestStatsOfADeletedContainerAreForgotten(t *testing.T) {
	sandboxWith(t, "0::/box\n", map[string]string{})
	s := measuredService(t, &gvisorStats{state: task.Status_STOPPED})
	s.forget("box")
	if _, err := s.Stats(t.Context(), &taskapi.StatsRequest{ID: "box"}); !errors.Is(err, errStopped) {
		t.Errorf("got %v", err)
	}
}
