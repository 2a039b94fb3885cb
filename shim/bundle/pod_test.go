// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"maps"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/google/go-cmp/cmp"
	specs "github.com/opencontainers/runtime-spec/specs-go"
	"gvisor.dev/gvisor/runsc/specutils"
)

const uid = "3b0c8f9e-5ad1-4b0e-9b53-0c7a6a7f2a11"

func podOf(annotations map[string]string) (Pod, error) {
	return (&Bundle{Spec: &specs.Spec{Annotations: annotations}}).Pod()
}

func TestPodOfContainerd(t *testing.T) {
	a := map[string]string{
		"io.kubernetes.cri.container-type":        "container",
		"io.kubernetes.cri.sandbox-id":            "s1",
		"io.kubernetes.cri.sandbox-namespace":     "vision",
		"io.kubernetes.cri.sandbox-name":          "detector",
		"io.kubernetes.cri.sandbox-uid":           uid,
		"io.kubernetes.cri.sandbox-log-directory": "/var/log/pods/vision_detector_" + uid,
		"io.kubernetes.cri.container-name":        "main",
	}
	b := &Bundle{Spec: &specs.Spec{
		Annotations: a,
		Mounts:      []specs.Mount{{Destination: "/etc/resolv.conf/", Source: "/run/resolv"}},
		Linux: &specs.Linux{CgroupsPath: "kubepods-pod1.slice:cri-containerd:s1", Namespaces: []specs.LinuxNamespace{
			{Type: specs.PIDNamespace, Path: "/proc/1/ns/pid"}, {Type: specs.NetworkNamespace, Path: "/run/netns/x"},
		}},
	}}
	got, err := b.Pod()
	if err != nil {
		t.Fatal(err)
	}
	want := Pod{
		Kind: Container, SandboxID: "s1", Namespace: "vision", Name: "detector", UID: uid, ContainerName: "main",
		LogDirectory: "/var/log/pods/vision_detector_" + uid, NetNS: "/run/netns/x", HasNetNS: true,
		ResolvConf: "/run/resolv", CgroupsPath: "kubepods-pod1.slice:cri-containerd:s1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestPodOfCRIO(t *testing.T) {
	sandbox := map[string]string{
		"io.kubernetes.cri-o.ContainerType": "sandbox",
		"io.kubernetes.cri-o.SandboxID":     "s1",
		"io.kubernetes.cri-o.LogPath":       "/var/log/pods/vision_detector_" + uid + "/s1.log",
		"io.kubernetes.pod.namespace":       "vision",
		"io.kubernetes.pod.name":            "detector",
		"io.kubernetes.container.name":      "POD",
	}
	want := Pod{
		Kind: Sandbox, SandboxID: "s1", Namespace: "vision", Name: "detector", UID: uid, ContainerName: "POD",
		LogDirectory: "/var/log/pods/vision_detector_" + uid,
	}
	got, err := podOf(sandbox)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	container := maps.Clone(sandbox)
	container["io.kubernetes.cri-o.ContainerType"] = "container"
	container["io.kubernetes.cri-o.LogPath"] = "/var/log/pods/vision_detector_" + uid + "/main/0.log"
	container["io.kubernetes.container.name"] = "main"
	want.Kind, want.ContainerName = Container, "main"
	if got, err = podOf(container); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestAPodOfCRIOCannotSpeakForContainerd(t *testing.T) {
	crio := map[string]string{
		"io.kubernetes.cri-o.ContainerType": "sandbox",
		"io.kubernetes.cri-o.SandboxID":     "s1",
		"io.kubernetes.pod.uid":             uid,
	}
	for key, value := range map[string]string{
		"io.kubernetes.cri.container-type":        "container",
		"io.kubernetes.cri.sandbox-id":            "another-pods-sandbox",
		"io.kubernetes.cri.sandbox-uid":           "another-pods-uid",
		"io.kubernetes.cri.sandbox-log-directory": "/var/log/pods/another_pod_uid",
	} {
		a := maps.Clone(crio)
		a[key] = value
		if pod, err := podOf(a); !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: got %+v, %v", key, pod, err)
		}
	}
	if _, err := podOf(crio); err != nil {
		t.Error(err)
	}
}

func TestPodUID(t *testing.T) {
	const logs, said, label = "io.kubernetes.cri.sandbox-log-directory", "io.kubernetes.cri.sandbox-uid", "io.kubernetes.pod.uid"
	tests := map[string]struct {
		annotations map[string]string
		want        string
		refused     bool
	}{
		"is what the CRI says":                           {map[string]string{said: "u1"}, "u1", false},
		"is what the CRI says, not a folder of any name": {map[string]string{said: "u1", logs: "/tmp/logs"}, "u1", false},
		"is the last part of the log folder":             {map[string]string{logs: "/l/ns_n_u1"}, "u1", false},
		"is the log folder's name in the old layout":     {map[string]string{logs: "/l/u1/"}, "u1", false},
		"is unknown for other log folders":               {map[string]string{logs: "/l/a_b_c_d"}, "", false},
		"is unknown without both":                        {nil, "", false},
		"is no label under containerd":                   {map[string]string{label: "u2"}, "", false},
		"must be the one of the pod's log folder":        {map[string]string{said: "u2", logs: "/l/ns_n_u1"}, "", true},
		"may not leave its folder":                       {map[string]string{said: ".."}, "", true},
		"may not be the folder":                          {map[string]string{said: "."}, "", true},
		"may not be a path":                              {map[string]string{said: "a/../b"}, "", true},
		"may not be a pattern":                           {map[string]string{logs: "/l/ns_n_*"}, "", true},
		"may not be a pattern with ranges":               {map[string]string{said: "[a-f]"}, "", true},
		"may not be longer than a file name":             {map[string]string{said: strings.Repeat("a", 256)}, "", true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			a := map[string]string{
				"io.kubernetes.cri.container-type":    "sandbox",
				"io.kubernetes.cri.sandbox-namespace": "ns",
				"io.kubernetes.cri.sandbox-name":      "n",
			}
			maps.Copy(a, test.annotations)
			pod, err := podOf(a)
			if test.refused != errdefs.IsInvalidArgument(err) || pod.UID != test.want {
				t.Errorf("uid %q, error %v", pod.UID, err)
			}
		})
	}
}

func TestKindAndSandboxIDAreThoseOfGVisor(t *testing.T) {
	values := []string{"", "sandbox", "container", "odd"}
	ids := []string{"", "s1"}
	for _, kind := range values {
		for _, otherKind := range values {
			for _, id := range ids {
				for _, otherID := range ids {
					compareWithGVisor(t, map[string]string{
						"io.kubernetes.cri.container-type":  kind,
						"io.kubernetes.cri-o.ContainerType": otherKind,
						"io.kubernetes.cri.sandbox-id":      id,
						"io.kubernetes.cri-o.SandboxID":     otherID,
					})
				}
			}
		}
	}
}

func compareWithGVisor(t *testing.T, annotations map[string]string) {
	t.Helper()
	maps.DeleteFunc(annotations, func(_, v string) bool { return v == "" })
	spec := &specs.Spec{Annotations: annotations}
	id, ok := SandboxID(annotations)
	if wantID, wantOK := specutils.SandboxID(spec); id != wantID || ok != wantOK {
		t.Errorf("%v: sandbox id %q, %t", annotations, id, ok)
	}
	pod, err := podOf(annotations)
	if CheckFacts(annotations) != nil {
		if !errdefs.IsInvalidArgument(err) {
			t.Errorf("%v: %v, %v", annotations, pod.Kind, err)
		}
		return
	}
	switch specutils.SpecContainerType(spec) {
	case specutils.ContainerTypeSandbox:
		if err != nil || pod.Kind != Sandbox {
			t.Errorf("%v: %v, %v", annotations, pod.Kind, err)
		}
	case specutils.ContainerTypeContainer:
		if ok && (err != nil || pod.Kind != Container) || !ok && !errdefs.IsInvalidArgument(err) {
			t.Errorf("%v: %v, %v", annotations, pod.Kind, err)
		}
	case specutils.ContainerTypeUnspecified:
		if err != nil || pod.Kind != Lone {
			t.Errorf("%v: %v, %v", annotations, pod.Kind, err)
		}
	default:
		if !errdefs.IsInvalidArgument(err) {
			t.Errorf("%v: %v, %v", annotations, pod.Kind, err)
		}
	}
}
