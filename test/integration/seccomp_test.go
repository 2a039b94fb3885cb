// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"os"
	"path/filepath"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/image"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/node"
)

// noChmod is a seccomp profile.
const noChmod = `{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [
	{"names": ["chmod", "fchmod", "fchmodat", "fchmodat2"], "action": "SCMP_ACT_ERRNO"}]}`

// chmodBarred starts a container whose profile bars it from changing modes.
func chmodBarred(t *testing.T, handler string) testutil.TestContainer {
	t.Helper()
	profile := filepath.Join(t.TempDir(), "no-chmod.json")
	if err := os.WriteFile(profile, []byte(noChmod), 0o600); err != nil {
		t.Fatal(err)
	}
	pod := testutil.Node(t).RunPod(t, node.PodSpec{Handler: handler})
	return pod.Start(t, node.ContainerSpec{Tweak: func(c *runtimeapi.ContainerConfig) {
		c.Linux.SecurityContext.Seccomp = &runtimeapi.SecurityProfile{
			ProfileType: runtimeapi.SecurityProfile_Localhost, LocalhostRef: profile,
		}
	}})
}

func TestRecommendedConfigurationEnforcesSeccompProfiles(t *testing.T) {
	container := chmodBarred(t, recommended)
	contains(t, container.ExecFails(t, "chmod", image.File), "not permitted")
}

// It is runsc's own flag, and runsc's default is another.
func TestWithoutTheFlagSeccompProfilesAreIgnored(t *testing.T) {
	chmodBarred(t, node.Sedna).Exec(t, "chmod", image.File)
}
