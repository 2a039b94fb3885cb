// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"errors"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
)

const (
	config     = "/etc/containerd/config.toml"
	nodeConfig = "/etc/containerd/sedna/config.toml"
)

// ownSettings is what an operator has said before: it must hold afterwards.
var ownSettings = map[int]string{
	2: "version = 2\n[plugins.'io.containerd.grpc.v1.cri']\n  sandbox_image = 'registry.test/pause:1'\n",
	3: "version = 3\n[plugins.'io.containerd.cri.v1.images'.pinned_images]\n  sandbox = 'registry.test/pause:1'\n",
}

// wso2/agent-manager#1891, containerd/containerd#4783: an installer wrote the
// table of another version, and said that all was well.
func TestTheHandlerIsInTheTableThatContainerdReads(t *testing.T) {
	for version, containerd := range containerds(t) {
		in := newInstallation(t, containerd)
		cases := map[string]string{
			"no file": "", "a file without content": "# nothing here\n\n", "version 2": ownSettings[2], "the default": in.defaults(),
		}
		if version != "1.7" {
			cases["version 3"] = ownSettings[3]
		}
		for name, before := range cases {
			t.Run(version+", "+name, func(t *testing.T) {
				in := newInstallation(t, containerd)
				if before != "" {
					in.write(config, before)
				}
				in.succeeds("install")
				checkHandler(t, in.dump(config))
				if strings.Contains(before, "pause:1") && !strings.Contains(in.dump(config), "registry.test/pause:1") {
					t.Error("the operator's own setting is gone")
				}
				in.succeeds("verify")
			})
		}
	}
}

// checkHandler reads a `config dump`.
func checkHandler(t *testing.T, dump string) {
	t.Helper()
	table := "[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.sedna]"
	if strings.Contains(dump, "version = 2\n") {
		table = "[plugins.'io.containerd.grpc.v1.cri'.containerd.runtimes.sedna]"
	}
	_, handler, found := strings.Cut(dump, table)
	if !found {
		t.Fatalf("no %s in:\n%s", table, dump)
	}
	const patterns = "['storage.sedna.io/*', 'dev.gvisor.spec.mount.*', 'dev.gvisor.empty-dir.*']"
	for _, want := range []string{
		"runtime_type = 'io.containerd.sedna.v1'", "pod_annotations = " + patterns, "container_annotations = " + patterns,
		"ConfigPath = '/etc/containerd/sedna/config.toml'",
	} {
		if !strings.Contains(handler, want) {
			t.Errorf("no %q in the handler that containerd reads", want)
		}
	}
}

func TestInstallingAgainChangesNothingAndRemovingGivesTheOldFileBack(t *testing.T) {
	for version, containerd := range containerds(t) {
		t.Run(version, func(t *testing.T) {
			in := newInstallation(t, containerd)
			in.write(config, ownSettings[2])
			in.succeeds("install")
			once := in.read(config)
			in.write(nodeConfig, "[cache]\nmode = \"off\"\n")
			in.succeeds("install")
			if again := in.read(config); again != once {
				t.Errorf("the second run wrote:\n%s\nafter the first:\n%s", again, once)
			}
			if !strings.Contains(in.read(nodeConfig), "off") {
				t.Error("the node's config.toml was overwritten")
			}
			in.succeeds("remove")
			if left := in.read(config); left != ownSettings[2] {
				t.Errorf("after remove the file is:\n%s", left)
			}
			if in.exists("/usr/local/bin/containerd-shim-sedna-v1") || !in.exists(nodeConfig) {
				t.Error("remove takes the programs and leaves the node's configuration")
			}
			if in.read(config+".before-sedna") != ownSettings[2] {
				t.Error("the first original isn't kept")
			}
		})
	}
}

func TestNothingIsRemovedWhileAPodRuns(t *testing.T) {
	in := newInstallation(t, any1(containerds(t)))
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Skip(err)
	}
	program, err := os.ReadFile(sleep)
	if err != nil {
		t.Fatal(err)
	}
	in.write("/from/containerd-shim-sedna-v1", string(program))
	in.succeeds("install")
	shim := exec.Command(in.path("/usr/local/bin/containerd-shim-sedna-v1"), "600")
	if err := shim.Start(); err != nil {
		t.Fatal(err)
	}
	stop := sync.OnceFunc(func() {
		_ = shim.Process.Kill()
		_ = shim.Wait()
	})
	defer stop()
	for range 2 { // the second time an upgrade has replaced the program
		in.fails([]string{"pods of this handler still run"}, "remove")
		checkHandler(t, in.dump(config))
		in.succeeds("install")
	}
	stop()
	in.succeeds("remove")
}

// A new version of the handler replaces the old one in the middle of a file that
// others have edited since.
func TestAnOlderBlockIsReplaced(t *testing.T) {
	in := newInstallation(t, any1(containerds(t)))
	in.write(config, ownSettings[2]+"\n# sedna: begin, written by install.sh\n[plugins.'io.containerd.grpc.v1.cri'.containerd.runtimes.sedna]\n"+
		"  runtime_type = 'old'\n# sedna: end\n\n[timeouts]\n  'io.containerd.timeout.shim.load' = '7s'\n")
	in.succeeds("install")
	checkHandler(t, in.dump(config))
	if !strings.Contains(in.dump(config), "shim.load' = '7s'") {
		t.Error("what stood after the block is gone")
	}
}

// Only the end says what is ours: without it the operator's own settings would go.
func TestABlockWithoutItsEndIsLeftAlone(t *testing.T) {
	const begin, end = "# sedna: begin, written by install.sh\n", "# sedna: end\n"
	in := newInstallation(t, any1(containerds(t)))
	for _, block := range []string{begin, end, begin + begin + end, end + begin} {
		before := ownSettings[2] + block + "[timeouts]\n  'io.containerd.timeout.shim.load' = '7s'\n"
		in.write(config, before)
		for _, verb := range []string{"install", "remove"} {
			in.fails([]string{config, "by hand"}, verb)
			if in.read(config) != before {
				t.Errorf("%s changed the file to:\n%s", verb, in.read(config))
			}
		}
	}
}

// A link of an image is absolute in the image, and here another file.
func TestALinkOutOfTheRootIsRefused(t *testing.T) {
	in, other := newInstallation(t, any1(containerds(t))), newInstallation(t, "")
	other.write("/config.toml", ownSettings[2])
	in.write("/etc/containerd/real.toml", ownSettings[2])
	if err := os.Symlink(other.path("/config.toml"), in.path(config)); err != nil {
		t.Fatal(err)
	}
	in.fails([]string{config, "leads out of"}, "install")
	if other.read("/config.toml") != ownSettings[2] {
		t.Error("the file of another machine was changed")
	}
	if err := errors.Join(os.Remove(in.path(config)), os.Symlink("real.toml", in.path(config))); err != nil {
		t.Fatal(err)
	}
	in.succeeds("install")
	checkHandler(t, in.dump("/etc/containerd/real.toml"))
}

func any1(containerds map[string]string) string {
	return containerds[slices.Sorted(maps.Keys(containerds))[0]]
}

func TestWhatWouldNotWorkIsRefusedAndChangesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		config string
		says   []string
	}{
		"version 1":         {"version = 1\n[plugins.cri]\n", []string{config, "version 1", "containerd config migrate"}},
		"no version":        {"[plugins.cri]\n", []string{config, "version 1"}},
		"Docker's package":  {"disabled_plugins = [\"cri\"]\n", []string{config, "version 1"}},
		"the CRI is off":    {"version = 2\ndisabled_plugins = ['io.containerd.grpc.v1.cri']\n", []string{"disabled_plugins", "take it out"}},
		"broken":            {"version = 2\n[plugins\n", []string{"can't read"}},
		"written by hand":   {ownSettings[2] + "[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.sedna]\n", []string{"by hand", "remove it"}},
		"plugins as inline": {"version = 2\nplugins = {}\n", []string{"can't read"}},
	} {
		for version, containerd := range containerds(t) {
			t.Run(version+", "+name, func(t *testing.T) {
				in := newInstallation(t, containerd)
				in.write(config, c.config)
				in.fails(c.says, "install")
				if in.read(config) != c.config {
					t.Error("the file was changed")
				}
				if files, err := os.ReadDir(in.path("/etc/containerd")); err != nil || len(files) != 2 {
					t.Errorf("beside config.toml and sedna/ there is more: %v, %v", files, err)
				}
			})
		}
	}
}

// The table of the other version is ignored without a word: only containerd's
// own answer shows it.
func TestVerifySeesAHandlerThatContainerdIgnores(t *testing.T) {
	all := containerds(t)
	foreign := "[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.sedna]\n  runtime_type = 'io.containerd.sedna.v1'\n"
	if containerd, ok := all["1.7"]; ok {
		in := newInstallation(t, containerd)
		in.write(config, "version = 2\n"+foreign)
		in.fails([]string{config, "no runtime handler \"sedna\""}, "verify")
	}
	if containerd, ok := all["2.4"]; ok {
		in := newInstallation(t, containerd)
		in.write(config, "version = 3\n"+foreign)
		in.fails([]string{config, "pod_annotations", "without their data"}, "verify")
	}
}

// k3s and rke2 write containerd's configuration anew from a template at each
// start.
func TestK3sGetsATemplateOfItsVersion(t *testing.T) {
	const dir = "/var/lib/rancher/k3s/agent/etc/containerd/"
	for version, c := range map[string]struct{ template, table string }{
		"2": {dir + "config.toml.tmpl", "io.containerd.grpc.v1.cri"},
		"3": {dir + "config-v3.toml.tmpl", "io.containerd.cri.v1.runtime"},
	} {
		t.Run(version, func(t *testing.T) {
			in := newInstallation(t, any1(containerds(t)))
			in.write(dir+"config.toml", "# generated\nversion = "+version+"\n")
			in.succeeds("install")
			text := in.read(c.template)
			if !strings.HasPrefix(text, "{{ template \"base\" . }}\n") || !strings.Contains(text, c.table) || strings.Contains(text, "version =") {
				t.Errorf("%s is:\n%s", c.template, text)
			}
			in.succeeds("install")
			if in.read(c.template) != text {
				t.Error("the second run changed it")
			}
		})
	}
}

func TestMisuseIsToldFromFailure(t *testing.T) {
	in := newInstallation(t, "containerd-that-is-not-there")
	for _, args := range [][]string{{}, {"instal"}, {"install", "--form", "x"}} {
		out, err := in.run(args...)
		if err == nil || !strings.Contains(out, "usage:") || !strings.Contains(err.Error(), "2") {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
	}
	in.fails([]string{"containerd-that-is-not-there", "--containerd"}, "install")
	if err := os.Remove(in.path("/from/sedna-storage")); err != nil {
		t.Fatal(err)
	}
	in.fails([]string{"sedna-storage is missing", "make build"}, "install")
}
