// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/sedna-io/containerd-shim-sedna/test/e2e/cluster"
)

// gvisor makes a pod run under gVisor's own shim.
func gvisor(spec *corev1.PodSpec) {
	class := "gvisor"
	spec.RuntimeClassName = &class
}

// nameless leaves out the volume that has a random name.
func nameless(spec *corev1.PodSpec) {
	no := false
	spec.AutomountServiceAccountToken = &no
}

// Autoscalers, `kubectl top` and evictions read what kubelet says of a pod here.
func TestPodHasTheMetricsThatItHasUnderGVisorsShim(t *testing.T) {
	t.Parallel()
	s := stage(t)
	s.run("ours", template(nil, nameless))
	s.run("theirs", template(nil, nameless, gvisor))
	s.eventually("kubelet's summary has both pods", func() error {
		pods, err := s.summary()
		if err != nil {
			return err
		}
		ours, theirs := fields(pods["ours"]), fields(pods["theirs"])
		if !theirs["/containers/main/memory/workingSetBytes"] || !theirs["/containers/main/cpu/usageNanoCores"] {
			return fmt.Errorf("gVisor's pod has no figures yet: %v", slices.Sorted(maps.Keys(theirs)))
		}
		var missing []string
		for field := range theirs {
			if !ours[field] {
				missing = append(missing, field)
			}
		}
		if len(missing) > 0 {
			return fmt.Errorf("ours lacks %v", missing)
		}
		t.Logf("%d figures under gVisor's shim, %d under ours", len(theirs), len(ours))
		return nil
	})
}

// summary is what kubelet says of the test's pods, by their names.
func (s scene) summary() (map[string]map[string]any, error) {
	text, err := s.Client.CoreV1().RESTClient().Get().AbsPath("/api/v1/nodes/" + cluster.NodeName + "/proxy/stats/summary").DoRaw(s.ctx)
	if err != nil {
		return nil, err
	}
	var all struct{ Pods []map[string]any }
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, err
	}
	pods := map[string]map[string]any{}
	for _, pod := range all.Pods {
		if ref := pod["podRef"].(map[string]any); ref["namespace"] == s.name {
			pods[ref["name"].(string)] = pod
		}
	}
	return pods, nil
}

// fields are the paths of all values below one, named elements of lists by name.
func fields(value any) map[string]bool {
	found := map[string]bool{}
	var walk func(path string, value any)
	walk = func(path string, value any) {
		switch value := value.(type) {
		case map[string]any:
			for key, below := range value {
				walk(path+"/"+key, below)
			}
		case []any:
			for i, below := range value {
				key := any(i)
				if named, ok := below.(map[string]any); ok && named["name"] != nil {
					key = named["name"]
				}
				walk(fmt.Sprintf("%s/%v", path, key), below)
			}
		default:
			found[path] = true
		}
	}
	walk("", value)
	return found
}
