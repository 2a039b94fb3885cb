// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
)

func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.toml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestNoFileMeansTheDefaults(t *testing.T) {
	c, err := Load("")
	if err != nil || !reflect.DeepEqual(c, Default()) {
		t.Errorf("Load(\"\") = %+v, %v", c, err)
	}
	empty, err := Load(write(t, ""))
	if err != nil {
		t.Fatal(err)
	}
	empty.Path = ""
	if !reflect.DeepEqual(empty, Default()) {
		t.Errorf("an empty file gives %+v", empty)
	}
}

func TestTheDefaultsAreValid(t *testing.T) {
	d := &decoder{}
	Default().validate(d)
	if d.mistakes != nil {
		t.Errorf("%+v", d.mistakes)
	}
}

func TestANamedFileThatIsMissingIsAnError(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "none.toml")
	if _, err := Load(missing); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), missing) {
		t.Errorf("Load = %v", err)
	}
}

// exampleWithout comments gives deploy/config.toml with each commented key set.
func exampleWithoutComments(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("../../deploy/config.toml")
	if err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile(`(?m)^#(\S)`).ReplaceAllString(string(data), "$1")
}

func TestTheExampleLoadsAsItStandsAndShowsTheDefaults(t *testing.T) {
	c, err := Load("../../deploy/config.toml")
	if err != nil {
		t.Fatal(err)
	}
	c.Path = ""
	recommended := Default()
	recommended.RunscConfig = map[string]string{"oci-seccomp": "true"}
	if !reflect.DeepEqual(c, recommended) {
		t.Errorf("as it stands it gives %+v", c)
	}
	c, err = Parse("x", exampleWithoutComments(t))
	if err != nil {
		t.Fatal(err)
	}
	c.Path, c.HostPaths, c.Endpoints, c.RunscConfig = "", nil, nil, nil
	for _, list := range []*[]string{&c.Shim.SkipContainers, &c.Storage.DenyCIDRs, &c.Storage.AllowCIDRs, &c.Storage.NoProxy} {
		*list = nil
	}
	if want := Default(); !reflect.DeepEqual(c, want) {
		t.Errorf("its comments give %+v, want %+v", c, want)
	}
}

func TestTheExampleHasEveryKey(t *testing.T) {
	example := exampleWithoutComments(t)
	for _, key := range allKeys(reflect.TypeFor[Config]()) {
		if !regexp.MustCompile(`(?m)^\[*`+key+`\b`).MatchString(example) && key != "grouping" {
			t.Errorf("%s isn't in deploy/config.toml", key)
		}
	}
}

// allKeys lists the names of keys, without their tables.
func allKeys(typ reflect.Type) []string {
	var keys []string
	for i := range typ.NumField() {
		field := typ.Field(i)
		inner := field.Type
		if inner.Kind() == reflect.Slice {
			inner = inner.Elem()
		}
		name := field.Tag.Get("toml")
		switch {
		case field.Anonymous || name != "-" && inner.Kind() == reflect.Struct && inner != reflect.TypeFor[Amount]():
			keys = append(keys, allKeys(inner)...)
		case name != "-":
			keys = append(keys, name)
		}
	}
	return keys
}

func TestEachKeyIsRead(t *testing.T) {
	c, err := Parse("x", `
binary_name = "/opt/runsc"
root = "/run/x"
log_level = "debug"
log_path = "/var/log/%ID%"
io_uid = 7
io_gid = 8
shim_cgroup = "/x"
enable_hibernate_server = true
[runsc_config]
platform = "kvm"
"net-raw" = "true"
[shim]
grouping = false
deadline_margin = "1m30s"
skip_containers = ["istio-proxy"]
gvisor_annotations = ["dev.gvisor.flag.debug"]
[volumes]
empty_dir = "auto"
[storage]
worker = "/opt/sedna-storage"
network = "host"
max_bytes = "1.5GiB"
max_files = 5
min_free = "5GiB"
min_free_inodes = "2.5%"
bandwidth = "100MB"
deny_cidrs = ["10.0.0.0/8", "fd00::/8"]
proxy = "http://u:p@proxy:3128"
limits = { cpu = "500m", memory = "256MiB" }
[cache]
mode = "copy"
[[host_path]]
path = "/data/in"
namespaces = ["a"]
[[host_path]]
path = "/data/out/"
writable = true
namespaces = ["*"]
[[endpoint]]
host = "minio:9000"
trusted = true
prefixes = ["s3://models/", "https://minio/x"]
`)
	if err != nil {
		t.Fatal(err)
	}
	got := []any{
		c.BinaryName, c.Root, c.IoUID, c.IoGID, c.EnableHibernateServer, c.RunscConfig["net-raw"], c.Shim.Grouping,
		c.Shim.DeadlineMargin.String(), c.Volumes.EmptyDir, int64(c.Storage.MaxBytes), c.Storage.MinFree, c.Storage.MinFreeInodes.Percent,
		int64(c.Storage.Bandwidth), int64(c.Storage.Limits.CPU), c.Storage.Limits.Memory.String(), c.HostPaths[1].Writable, c.Endpoints[0].Trusted, c.Cache.Path,
	}
	want := []any{
		"/opt/runsc", "/run/x", uint32(7), uint32(8), true, "true", false,
		"1m30s", "auto", int64(3 << 29),
		Amount{Bytes: 5 << 30},
		2.5,
		int64(100_000_000), int64(500), "256MiB", true, true, "/var/lib/sedna/cache",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestMistakesNameFileLineAndKey(t *testing.T) {
	for _, c := range []struct{ name, text, say string }{
		{"unknown key", "[storage]\n\nmax_byte = \"1\"\n", `f.toml:3: [storage] max_byte: unknown key; did you mean max_bytes?`},
		{"unknown table", "[storag]\nx = 1\n", `f.toml:1: storag: unknown key; did you mean storage?`},
		{"unknown at the top", "binary = \"x\"\n", `f.toml:1: binary: unknown key; did you mean binary_name?`},
		{"unknown, like nothing", "[cache]\nqqq = 1\n", `f.toml:2: [cache] qqq: unknown key`},
		{"key in other letters", "[cache]\nMode = \"off\"\n", `f.toml:2: [cache] Mode: unknown key`},
		{"in the second table of a list", "[[host_path]]\npath=\"/data\"\n[[host_path]]\npth=\"/x\"\n", `f.toml:4: [[host_path]] pth: unknown key; did you mean path?`},
		{"value in the second table of a list", "[[host_path]]\npath=\"/data\"\n[[host_path]]\npath=\"/etc/x\"\n", `f.toml:4: [[host_path]] path`},
		{"inline table", "[storage]\nlimits = { cpus = \"1\" }\n", `f.toml:2: [storage.limits] cpus: unknown key; did you mean cpu?`},
		{"wrong type: text for a number", "[storage]\nmax_files = \"5\"\n", `f.toml:2: [storage] max_files: "5" is no whole number`},
		{"wrong type: number for a switch", "[shim]\ngrouping = 1\n", `f.toml:2: [shim] grouping: 1 is no true or false`},
		{"wrong type: number for a text", "[cache]\npath = 5\n", `f.toml:2: [cache] path: 5 is no text`},
		{"wrong type: text for a list", "[shim]\nskip_containers = \"x\"\n", `write [...] around it`},
		{"wrong type: a list's element", "[shim]\nskip_containers = [\n\"a\",\n5]\n", `5 is no text`},
		{"wrong type: a value for a table", "cache = \"off\"\n", `f.toml:1: cache: is a table; write [cache]`},
		{"wrong type: a table for a list of tables", "[host_path]\npath = \"/data\"\n", `write [[host_path]]`},
		{"runsc flag that is no text", "[runsc_config]\ndebug = true\n", `f.toml:2: [runsc_config] debug: true is no text; write it in quotes`},
		{"not TOML", "[storage\n", `: not TOML: expected`},
		{"a key twice", "[cache]\nmode = \"off\"\nmode = \"link\"\n", `f.toml:3: cache.mode: not TOML`},
		{"after a text of several lines", "log_path = '''\n[shim]\ngrouping = 1\n'''\n[shim]\ngrouping = 1\n", `f.toml:6: [shim] grouping`},
		{"duration without a unit", "[shim]\ndeadline_margin = 10\n", `[shim] deadline_margin: 10 is no duration; write it like "10s" or "4m"`},
		{"negative duration", "[storage]\nstall_timeout = \"-1s\"\n", `is no duration`},
		{"no time at all", "[storage]\nstall_timeout = \"0s\"\n", `not above 0`},
		{"margin over the deadline", "[shim]\ndeadline_margin = \"5m\"\n", `up to 2m`},
		{"size of another country", "[storage]\nmax_bytes = \"1,5GB\"\n", `is no size`},
		{"negative size", "[storage]\nbandwidth = -1\n", `is no size`},
		{"half a byte", "[storage]\nmax_bytes = 1.5\n", `is no size`},
		{"huge size", "[storage]\nmax_bytes = \"9EiB\"\n", `too large`},
		{"share of everything", "[storage]\nmin_free = \"100%\"\n", `less than 100%`},
		{"no cores", "[storage.limits]\ncpu = 0\n", `f.toml:2: [storage.limits] cpu: 0 is no number of cores`},
		{"too little memory", "[storage.limits]\nmemory = \"1MiB\"\n", `32MiB`},
		{"no workers", "[storage]\nmax_workers = 0\n", `not from 1 to 1024`},
		{"unknown network", "[storage]\nnetwork = \"none\"\n", `none of pod, host`},
		{"unknown cache mode", "[cache]\nmode = \"on\"\n", `none of link, copy, off`},
		{"unknown emptyDir mode", "[volumes]\nempty_dir = \"always\"\n", `none of annotated, auto`},
		{"relative worker", "[storage]\nworker = \"bin/x\"\n", `absolute path`},
		{"relative kubelet root", "[shim]\nkubelet_root = \"kubelet\"\n", `absolute path`},
		{"root as kubelet root", "[shim]\nkubelet_root = \"/\"\n", `no folder of the kubelet`},
		{"cache in the kubelet's folder", "[cache]\npath = \"/var/lib/kubelet/x\"\n", `at or below /var/lib/kubelet`},
		{"cache of no size", "[cache]\nmax_size = 0\n", `mode = "off"`},
		{"address for a network", "[storage]\ndeny_cidrs = [\"10.0.0.1\"]\n", `f.toml:2: [storage] deny_cidrs[0]: "10.0.0.1" is no network`},
		{"bits beyond the mask", "[storage]\nallow_cidrs = [\"10.0.0.1/8\"]\n", `write 10.0.0.0/8`},
		{"relative metrics file", "[storage]\nmetrics_file = \"sedna.prom\"\n", `absolute path`},
		{"metrics file that nobody reads", "[storage]\nmetrics_file = \"/var/lib/x/sedna.txt\"\n", `f.toml:2: [storage] metrics_file: "/var/lib/x/sedna.txt" doesn't end in .prom`},
		{"no host for no_proxy", "[storage]\nno_proxy = [\"a,b\"]\n", `is no host`},
		{"a URL for no_proxy", "[storage]\nno_proxy = [\"http://minio/\"]\n", `neither a host nor a network`},
		{"proxy that is none", "[storage]\nproxy = \"proxy:3128\"\n", `[storage] proxy`},
		{"log level", "log_level = \"loud\"\n", `log_level`},
		{"grouping said twice", "grouping = false\n[shim]\ngrouping = true\n", `f.toml:1: grouping: contradicts [shim] grouping`},
		{"annotations of all of gVisor", "[shim]\ngvisor_annotations = [\"dev.gvisor.*\"]\n", `list other keys one by one`},
		{"annotations of all flags", "[shim]\ngvisor_annotations = [\"dev.gvisor.flag.*\"]\n", `runsc's flags`},
		{"annotations of everything in spec", "[shim]\ngvisor_annotations = [\"dev.gvisor.spec.*\"]\n", `one by one`},
		{"annotations of others", "[shim]\ngvisor_annotations = [\"*\"]\n", `dev.gvisor.`},
		{"a star inside", "[shim]\ngvisor_annotations = [\"dev.gvisor.spec.mount.*.type\"]\n", `only at its end`},
		{"endpoint with a scheme", "[[endpoint]]\nhost = \"https://minio\"\n", `host and port only`},
		{"endpoint without a host", "[[endpoint]]\ntrusted = true\n", `f.toml:1: [[endpoint]] host: "" is missing`},
		{"endpoint twice", "[[endpoint]]\nhost = \"m\"\n[[endpoint]]\nhost = \"M\"\n", `f.toml:4: [[endpoint]] host`},
		{"prefix that is none", "[[endpoint]]\nhost = \"m\"\nprefixes = [\"models/\"]\n", `s3://bucket/dir/`},
		{"credentials to anybody", "[[endpoint]]\nhost = \"m\"\ncredentials_file = \"/x\"\ninsecure_skip_verify = true\n", `whoever answers`},
		{"a CA and no verification", "[[endpoint]]\nhost = \"m\"\nca_file = \"/x\"\ninsecure_skip_verify = true\n", `contradicts ca_file`},
		{"a root below a writable one", "[[host_path]]\npath = \"/data/x\"\n[[host_path]]\npath = \"/data\"\nwritable = true\n", `f.toml:2: [[host_path]] path: "/data/x" lies below "/data", which pods may write`},
		{"namespace that is none", "[[host_path]]\npath = \"/data\"\nnamespaces = [\"A b\"]\n", `neither a namespace`},
	} {
		t.Run(c.name, func(t *testing.T) {
			parsed, err := Parse("f.toml", c.text)
			if err == nil {
				t.Fatalf("accepted: %+v", parsed)
			}
			if !errors.Is(err, errdefs.ErrInvalidArgument) || !strings.Contains(err.Error(), c.say) {
				t.Errorf("the error does not say\n%s\n%v", c.say, err)
			}
		})
	}
}

func TestAllMistakesComeTogetherByLine(t *testing.T) {
	_, err := Parse("f.toml", "[cache]\nmod = 1\n[shim]\ngrouping = 1\n[storage]\nmax_files = \"x\"\n")
	if got := strings.Count(err.Error(), "f.toml:"); got != 3 || strings.Contains(err.Error(), "\n") {
		t.Errorf("%d mistakes: %v", got, err)
	}
}

func TestAProxysPasswordIsNotShown(t *testing.T) {
	for _, proxy := range []string{"ftp://u:CANARY@p", "http://u:CANARY@p:x", "http://u:CANARY@p/path"} {
		if _, err := Parse("f", "[storage]\nproxy = \""+proxy+"\"\n"); err == nil || strings.Contains(err.Error(), "CANARY") {
			t.Errorf("%v", err)
		}
	}
}

func TestGVisorsGroupingSpeaksWhereOursDoesNot(t *testing.T) {
	for text, want := range map[string]bool{
		"":                         true,
		"grouping = false":         false,
		"grouping = true":          true,
		"[shim]\ngrouping = false": false,
		"grouping = false\n[shim]\ngrouping = false": false,
	} {
		c, err := Parse("f", text)
		if err != nil || c.Shim.Grouping != want {
			t.Errorf("%q gives %v, %v", text, c, err)
		}
	}
}

func TestFoldersOfTheSystemCantBeAllowed(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	if err := os.Symlink("/etc", link); err != nil {
		t.Fatal(err)
	}
	kubelet := filepath.Join(dir, "kubelet")
	for _, p := range []string{
		"/", "/var", "/var/lib", "/var/lib/kubelet", "/var/lib/kubelet/pods/x", "/proc", "/proc/1/root", "/sys", "/dev/shm",
		"/etc", "/etc/ssl", "/root", "/boot", "/run", "/var/run/secrets", "/var/lib/containerd", "/usr/share", "/opt", "/opt/cni/bin",
		"/var/log", "/data/../etc", "data", "/var/lib/sedna/cache", "/var/lib/sedna", "//etc/", link, kubelet, filepath.Join(kubelet, "pods"), dir,
	} {
		text := "[shim]\nkubelet_root = \"" + kubelet + "\"\n[[host_path]]\npath = \"" + p + "\"\nnamespaces = [\"*\"]\n"
		if _, err := Parse("f.toml", text); err == nil || !strings.Contains(err.Error(), "f.toml:4: [[host_path]] path") {
			t.Errorf("%s: %v", p, err)
		}
	}
	for _, p := range []string{"/opt/datasets", "/data", "/mnt/models/", "/srv", "/etcetera", "/var/models", filepath.Join(dir, "data")} {
		text := "[shim]\nkubelet_root = \"" + kubelet + "\"\n[[host_path]]\npath = \"" + p + "\"\n"
		if _, err := Parse("f.toml", text); err != nil {
			t.Errorf("%s: %v", p, err)
		}
	}
}

func TestGVisorAnnotationsMatchByNameOrFamily(t *testing.T) {
	c, err := Parse("f", `shim = { gvisor_annotations = ["dev.gvisor.spec.mount.*", "dev.gvisor.empty-dir.cache.*", "dev.gvisor.flag.debug"] }`)
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]bool{
		"dev.gvisor.spec.mount.x.type":            true,
		"dev.gvisor.spec.mount":                   false,
		"dev.gvisor.empty-dir.cache.force-shared": true,
		"dev.gvisor.empty-dir.other.force-shared": false,
		"dev.gvisor.flag.debug":                   true,
		"dev.gvisor.flag.debug-log":               false,
		"dev.gvisor.spec.rootfs.source":           false,
	} {
		if c.Shim.AllowsAnnotation(key) != want {
			t.Errorf("%s is %v", key, !want)
		}
	}
}
