// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"maps"
	"strings"
	"testing"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/node"
)

// kubelet sends a pod's annotations as they are now with every container, and
// whoever may edit a pod may change them while it runs.
func TestAnnotationsChangedOnARunningPodChangeNothing(t *testing.T) {
	n := testutil.Node(t)
	server := n.Web(t)
	url := server.File("/model", []byte("bytes"))
	other := server.File("/other", []byte("other"))
	before := asks(map[string]string{"model.url": url, "model.env": "MODEL"})
	file := downloads + "/" + server.Host() + "/model"

	for name, change := range map[string]map[string]string{
		"writable":   {"writable": "true"},
		"volume":     {"volume": "scratch"},
		"url":        {"model.url": other},
		"mount path": {"mount-path": "/elsewhere"},
		"env":        {"model.env": "SHELL"},
		"everything": {"writable": "true", "volume": "scratch", "model.url": "file:///etc", "containers": "nobody"},
		"nonsense":   {"model.ulr": "://"},
	} {
		t.Run(name, func(t *testing.T) {
			n := testutil.Node(t)
			pod := n.RunPod(t, node.PodSpec{
				Volumes:     []node.Volume{downloadVolume(), {Name: "scratch"}},
				Annotations: before,
			})
			pod.Start(t, node.ContainerSpec{Name: "app"}).Stop(t)
			since := n.LogSize()
			after := maps.Clone(before)
			maps.Copy(after, asks(change))
			container := pod.Start(t, node.ContainerSpec{Name: "app", Annotations: after})

			if got := strings.TrimSpace(container.Exec(t, "env", "MODEL")); got != file {
				t.Errorf("MODEL is %q", got)
			}
			if got := container.Exec(t, "cat", file); got != "bytes" {
				t.Errorf("the model holds %q", got)
			}
			container.ExecFails(t, "write", file, "evil")
			container.ExecFails(t, "stat", downloads+"/"+server.Host()+"/other")
			container.ExecFails(t, "stat", "/elsewhere")
			if len(lines(n.Log(since, 1000), "level=warning", "differs from the one that the pod was started with")) == 0 {
				t.Error("no line in the log says that the annotations differ from the record")
			}
		})
	}
}
