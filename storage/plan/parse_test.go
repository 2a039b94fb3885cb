// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"
)

// pod writes annotations as "key: value" lines, without the prefix.
func pod(lines ...string) map[string]string {
	a := map[string]string{}
	for _, line := range lines {
		key, value, _ := strings.Cut(line, ": ")
		a[Prefix+key] = value
	}
	return a
}

func mustParse(t *testing.T, lines ...string) *Plan {
	t.Helper()
	p, err := Parse(pod(lines...))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// mustFail wants an InvalidArgument that says each of words.
func mustFail(t *testing.T, annotations map[string]string, words ...string) {
	t.Helper()
	p, err := Parse(annotations)
	if err == nil {
		t.Fatalf("accepted: %+v", p)
	}
	if !errors.Is(err, errdefs.ErrInvalidArgument) {
		t.Errorf("%v is no ErrInvalidArgument", err)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("the error does not say %q:\n%v", word, err)
		}
	}
}

func TestAPodWithoutOurAnnotationsAsksForNothing(t *testing.T) {
	for _, a := range []map[string]string{nil, {}, {"dev.gvisor.spec.mount.x.type": "tmpfs", "storage.sedna.iox/y": "z"}} {
		p, err := Parse(a)
		if err != nil || p.Asks() {
			t.Errorf("Parse(%v) = %+v, %v", a, p, err)
		}
	}
}

func TestMalformedAndHostileURLsAreRefused(t *testing.T) {
	long := strings.Repeat("a", 300)
	for _, c := range []struct{ name, url, say string }{
		{"no scheme before the slashes", "://x", "no scheme"},
		{"space in the host", "https://ho st/x", "host"},
		{"empty", "", "no URL"},
		{"only separators", " ; ", "empty"},
		{"an empty part", "s3://b/k;;s3://b/l", "URL 2 of 3 is empty"},
		{"s3 without slashes", "s3:bucket/key", "s3://BUCKET/KEY"},
		{"s3 without a bucket", "s3:///key", "no bucket"},
		{"https without a host", "https:///x", "no host"},
		{"https with a port only", "https://:80/x", "host"},
		{"https with an empty port", "https://h:/x", "host"},
		{"https with a huge port", "https://h:99999/x", "host"},
		{"https that names no file", "https://host/", "names no file"},
		{"https without a path", "https://host", "names no file"},
		{"https with only a query", "https://host?file=x", "names no file"},
		{"https that names a folder", "https://host/dir/", "names no file"},
		{"https that ends above", "https://host/a/b/..", "names no file"},
		{"s3 that leaves its bucket", "s3://b/../../x", `".."`},
		{"s3 with a dot segment", "s3://b/a/./x", `"."`},
		{"s3 with an empty segment", "s3://b//x", "empty segment"},
		{"s3 with two final slashes", "s3://b/x//", "empty segment"},
		{"s3 bucket that is a parent", "s3://../x", "bucket"},
		{"s3 bucket with two dots", "s3://a..b/x", "bucket"},
		{"s3 bucket that hides", "s3://.sedna/x", "bucket"},
		{"s3 with a port", "s3://b:9000/x", "s3-endpoint"},
		{"s3 with a version", "s3://b/x?versionId=7", "version"},
		{"https that leaves its host", "https://h/../../x", "leaves its host"},
		{"https that leaves its host, escaped", "https://h/%2e%2e/%2e%2e/x", "leaves its host"},
		{"https with an escaped slash that leaves", "https://h/..%2f..%2fx", "leaves its host"},
		{"https that leaves and comes back", "https://h/../h/x", "leaves its host"},
		{"https with a NUL", "https://h/a%00b", "NUL"},
		{"https with a newline", "https://h/a%0ab", "control character"},
		{"https with a reversing character", "https://h/a%E2%80%AEb", "control character"},
		{"https with bytes that are no UTF-8", "https://h/a%ffb", "UTF-8"},
		{"https with a backslash", `https://h/a%5c..%5cb`, "backslash"},
		{"https with a bad escape", "https://h/a%zz", "hex digits"},
		{"https to a parent", "https://../x", "host"},
		{"https to a hidden folder", "https://.sedna/x", "host"},
		{"https with a zone", "https://[fe80::1%25eth0]/x", "host"},
		{"a name too long", "https://h/" + long, "longer than"},
		{"unknown scheme", "ftp://h/x", "s3://, obs://, http://, https://"},
		{"gs", "gs://b/x", `"gs"`},
		{"relative path", "file.txt", "absolute"},
		{"relative path with folders", "a/b", "absolute"},
		{"host path that is the root", "/", "root folder"},
		{"host file in the root", "/x.bin", "root folder"},
		{"host path upwards", "/opt/../etc/shadow", ".."},
		{"host path with a NUL", "/opt/a\x00b", "NUL"},
		{"file URL with a host", "file://host/x", "file:///path"},
		{"file URL that is relative", "file:x", "file:///path"},
		{"file URL upwards", "file:///../../x", "leaves"},
	} {
		t.Run(c.name, func(t *testing.T) {
			mustFail(t, pod("m.env: V", "m.url: "+c.url), "storage.sedna.io/m.url", c.say)
		})
	}
}

func TestWellFormedURLs(t *testing.T) {
	for _, c := range []struct{ name, url, value string }{
		{"s3 is literal", "s3://b/a%20b", "/downloads/b/a%20b"},
		{"s3 with spaces and unicode", "s3://b/a b/模型.bin", "/downloads/b/a b/模型.bin"},
		{"s3 with a query", "s3://b/k?x=1", "/downloads/b/k"},
		{"http is decoded once", "https://h/a%20b", "/downloads/h/a b"},
		{"http is decoded only once", "https://h/%252e%252e/x", "/downloads/h/%2e%2e/x"},
		{"http with an inner parent", "https://h/a/../b", "/downloads/h/b"},
		{"http with double slashes", "https://h//a//b", "/downloads/h/a/b"},
		{"http with query and fragment", "https://h/m.bin?sig=1#x", "/downloads/h/m.bin"},
		{"http with userinfo", "https://u:p@h/m", "/downloads/h/m"},
		{"http with an address", "http://[::1]:8080/m", "/downloads/[::1]:8080/m"},
		{"a scheme in capitals", "HTTPS://h/m", "/downloads/h/m"},
		{"S3 in capitals", "S3://b/m", "/downloads/b/m"},
		{"obs is s3", "obs://b/m", "/downloads/b/m"},
		{"an archive is its folder", "https://h/p/m.tar.gz?sig=.bin", "/downloads/h/p"},
		{"an archive in s3 too", "s3://b/p/m.tgz", "/downloads/b/p"},
		{"an archive at the top", "https://h/m.zip", "/downloads/h"},
		{"a plain gz is none", "https://h/m.gz", "/downloads/h/m.gz"},
		{"an archive in the query is none", "https://h/download?path=x.zip", "/downloads/h/download"},
		{"a folder named like an archive is none", "s3://b/m.zip/", "/downloads/b/m.zip"},
		{"a file of the container", "file:///in/container/y", "/in/container/y"},
		{"a file of the container, escaped", "file:///a%20b", "/a b"},
		{"a host file", "/opt/data/m.pb", "/hostpath/opt/data/m.pb"},
		{"a host path is literal", "/opt/a%20b", "/hostpath/opt/a%20b"},
		{"a host folder", "/opt/data/", "/hostpath/opt/data"},
		{"several", "s3://b/k; /opt/d/x\n;file:///y", "/downloads/b/k;/hostpath/opt/d/x;/y"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := mustParse(t, "m.env: V", "m.url: "+c.url)
			if got := p.Variables[0].Value("/downloads"); got != c.value {
				t.Errorf("the variable is %q, want %q", got, c.value)
			}
		})
	}
}

func TestWriteonlyGivesTheURLAndFetchesNothing(t *testing.T) {
	const presigned = "https://h/out?X-Amz-Signature=CANARY"
	p := mustParse(t, "m.env: OUT", "m.mode: writeonly", "m.url: s3://b/out/;"+presigned+";/opt/out/r.csv")
	if len(p.Downloads) > 0 {
		t.Errorf("fetches %v", p.Downloads)
	}
	if !p.HostPaths[0].Writable {
		t.Error("the host path isn't writable")
	}
	v := p.Variables[0]
	if got, want := v.Value("/downloads"), "s3://b/out/;"+presigned+";/hostpath/opt/out/r.csv"; got != want {
		t.Errorf("the variable is %q, want %q", got, want)
	}
	if got := v.Redacted("/downloads"); strings.Contains(got, "CANARY") || !strings.Contains(got, "https://h/out?X-Amz-Signature=REDACTED") {
		t.Errorf("redacted, the variable is %q", got)
	}
}

func TestOptionsReachTheDownload(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0a", 32)
	p := mustParse(t, "secret: keys", "s3-endpoint: http://minio:9000/", "s3-region: eu-1",
		"a.url: s3://b/x/;s3://b/y", "a.digest: ;"+strings.ToUpper(digest), "a.offline: allow", "a.s3-addressing: path",
		"b.url: https://h/i.txt", "b.indirect: true", "b.exclude: *.md;**/tmp/**", "b.secret: other",
		"c.url: s3://c/m.zip", "c.unpack: never", "c.s3-endpoint: s3.example.com", "c.s3-usehttps: 1")
	got, _ := json.MarshalIndent(p.Downloads, "", " ")
	want := `[
 {"mounts":["a"],"url":"s3://b/x/","path":"b/x","dir":true,"secret":"keys","s3":{"endpoint":"minio:9000","insecure":true,"region":"eu-1","addressing":"path"},"offline":true},
 {"mounts":["a"],"url":"s3://b/y","path":"b/y","digest":"` + digest + `","secret":"keys","s3":{"endpoint":"minio:9000","insecure":true,"region":"eu-1","addressing":"path"},"offline":true},
 {"mounts":["c"],"url":"s3://c/m.zip","path":"c/m.zip","secret":"keys","s3":{"endpoint":"s3.example.com","insecure":false,"region":"eu-1"}},
 {"mounts":["b"],"url":"https://h/i.txt","path":"h/i.txt","indirect":true,"exclude":["*.md","**/tmp/**"],"secret":"other"}
]`
	var wantAny, gotAny any
	if err := json.Unmarshal([]byte(want), &wantAny); err != nil {
		t.Fatal(err)
	}
	_ = json.Unmarshal(got, &gotAny)
	if fmt.Sprint(gotAny) != fmt.Sprint(wantAny) {
		t.Errorf("downloads are\n%s\nwant\n%s", got, want)
	}
}

func TestOneURLInTwoMountsIsFetchedOnce(t *testing.T) {
	p := mustParse(t, "a.url: s3://b/m", "a.env: A", "b.url: obs://b/m;s3://b/m", "b.env: B")
	if len(p.Downloads) != 1 || fmt.Sprint(p.Downloads[0].Mounts) != "[a b]" {
		t.Errorf("downloads are %+v", p.Downloads)
	}
	if p.Variables[0].Value("/d") != "/d/b/m" || p.Variables[1].Value("/d") != "/d/b/m;/d/b/m" {
		t.Errorf("variables are %+v", p.Variables)
	}
}

func TestConflictsBetweenMountsNameBoth(t *testing.T) {
	for _, c := range []struct {
		name  string
		lines []string
		say   []string
	}{
		{"the query alone differs", []string{"a.url: https://h/m?v=1", "b.url: https://h/m?v=2"}, []string{`"a"`, "b.url"}},
		{"the scheme alone differs", []string{"a.url: https://b/k", "b.url: s3://b/k"}, []string{`"a"`, "b.url"}},
		{"object and folder", []string{"a.url: s3://b/k", "b.url: s3://b/k/"}, []string{`"a"`, "dir"}},
		{"a file above another", []string{"a.url: https://h/m", "b.url: https://h/m/x"}, []string{"below", `"a"`, "b.url"}},
		{"a file where an archive unpacks", []string{"a.url: https://h/m", "b.url: https://h/m/x.zip"}, []string{`"a"`, "b.url"}},
		{"different digests", []string{"a.url: s3://b/k", "a.digest: sha256:" + strings.Repeat("1", 64), "b.url: s3://b/k", "b.digest: sha256:" + strings.Repeat("2", 64)}, []string{"digest", `"a"`, `"b"`}},
		{"different secrets", []string{"a.url: s3://b/k", "a.secret: x", "b.url: s3://b/k"}, []string{"secret"}},
		{"one variable", []string{"a.url: s3://b/k", "a.env: V", "b.url: s3://b/l", "b.env: V"}, []string{"V", `"a"`, "b.env"}},
	} {
		t.Run(c.name, func(t *testing.T) { mustFail(t, pod(c.lines...), c.say...) })
	}
}

func TestWhatMergesIsNoConflict(t *testing.T) {
	for _, c := range []struct {
		name  string
		lines []string
		want  int
	}{
		{"two archives in one folder", []string{"a.url: https://h/x.zip", "b.url: https://h/y.tar"}, 2},
		{"an archive into a folder", []string{"a.url: s3://b/m/", "b.url: s3://b/m/y.tar"}, 2},
		{"a folder and one in it", []string{"a.url: s3://b/m/", "b.url: s3://b/m/x/"}, 2},
		{"an archive kept and unpacked", []string{"a.url: https://h/x.zip", "b.url: https://h/x.zip", "b.unpack: never"}, 2},
		{"a digest in one of two", []string{"a.url: s3://b/m", "b.url: s3://b/m", "b.digest: sha256:" + strings.Repeat("1", 64)}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			if p := mustParse(t, c.lines...); len(p.Downloads) != c.want {
				t.Errorf("downloads are %+v", p.Downloads)
			}
		})
	}
}

func TestUnknownKeysNameTheNearest(t *testing.T) {
	for key, say := range map[string]string{
		"volum":           "did you mean storage.sedna.io/volume?",
		"m.ulr":           "did you mean storage.sedna.io/m.url?",
		"m.checkhostpath": "did you mean storage.sedna.io/m.check-host-path?",
		"url":             "storage.sedna.io/NAME.url",
		"m.volume":        "whole pod: storage.sedna.io/volume",
		"m.a.url":         "unknown field",
		"Model.url":       "lower-case",
		".url":            "can't name a mount",
		"":                "unknown annotation",
		"zzzzzzzzzz":      "known are",
	} {
		t.Run(key, func(t *testing.T) {
			mustFail(t, pod("m.url: s3://b/k", key+": x"), Prefix+key, say)
		})
	}
}

func TestBadValuesNameTheirKeyAndWhatToWrite(t *testing.T) {
	for line, say := range map[string]string{
		"volume: ../x":                        "can't name a volume",
		"secret: a/b":                         "can't name a volume",
		"writable: yes":                       `"true" or "false"`,
		"max-bytes: 1,5GB":                    "no size",
		"max-bytes: -1":                       "no size",
		"max-bytes: 99999999999999999EB":      "too large",
		"containers: a;;b":                    "can't name a container",
		"containers: A":                       "can't name a container",
		"s3-usehttps: true":                   "1, 0",
		"s3-endpoint: https://h/path":         "has a path",
		"s3-endpoint: ftp://h":                "neither http nor https",
		"s3-endpoint: https://k:CANARY@h":     "credentials",
		"s3-region: a b":                      "no region",
		"s3-addressing: dns":                  "auto, path, virtual",
		"m.mode: rw":                          "readonly, writeonly",
		"m.dir: 1":                            `"true" or "false"`,
		"m.unpack: no":                        "auto, never",
		"m.offline: yes":                      "deny, allow",
		"m.digest: md5:00":                    "sha256:",
		"m.digest: a;b":                       "2 digests for 1 URLs",
		"m.include: a**":                      "**",
		"m.include: [":                        "malformed",
		"m.exclude: /abs":                     "relative",
		"m.exclude: ../x":                     `..`,
		"m.secret: sedna-storage-initializer": "receives the downloads",
		"m.env: 1A":                           "can't name a variable",
		"m.env: A-B":                          "can't name a variable",
		"m.env: A=B":                          "can't name a variable",
	} {
		t.Run(line, func(t *testing.T) {
			key, _, _ := strings.Cut(line, ":")
			mustFail(t, pod("m.url: s3://b/k", line), Prefix+key, say)
			if _, err := Parse(pod("m.url: s3://b/k", line)); strings.Contains(err.Error(), "CANARY") {
				t.Errorf("the error shows a secret: %v", err)
			}
		})
	}
}

func TestOptionsThatWouldDoNothingAreRefused(t *testing.T) {
	for _, lines := range [][]string{
		{"m.url: /opt/x/y", "m.digest: sha256:" + strings.Repeat("1", 64)},
		{"m.url: s3://b/k/", "m.digest: sha256:" + strings.Repeat("1", 64)},
		{"m.url: https://h/x", "m.include: *.bin"},
		{"m.url: /opt/x/y", "m.exclude: *.bin"},
		{"m.url: /opt/x/y", "m.indirect: true"},
		{"m.url: s3://b/k/", "m.indirect: true"},
		{"m.env: V"},
		{"s3-endpoint: https://h", "s3-usehttps: 0", "m.url: s3://b/k"},
	} {
		mustFail(t, pod(lines...))
	}
}

func TestEmptyOptionsMeanTheDefault(t *testing.T) {
	full := pod("m.url: s3://b/k")
	for _, key := range PodKeys {
		full[Prefix+key] = ""
	}
	for _, field := range MountFields {
		if field != "url" {
			full[mountKey("m", field)] = " "
		}
	}
	p, err := Parse(full)
	if err != nil {
		t.Fatal(err)
	}
	got, _ := json.Marshal(p)
	want, _ := json.Marshal(mustParse(t, "m.url: s3://b/k"))
	if string(got) != string(want) {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestCheckHostPathKeepsHostPathsOnly(t *testing.T) {
	p := mustParse(t, "m.url: https://h/x;/opt/d/f;s3://b/k;file:///y", "m.check-host-path: true", "m.env: V")
	if len(p.Downloads) > 0 || len(p.HostPaths) != 1 || p.Variables[0].Value("/d") != "/hostpath/opt/d/f" {
		t.Errorf("plan is %+v", p)
	}
	p = mustParse(t, "m.url: https://h/x", "m.check-host-path: true", "m.env: V")
	if p.Asks() {
		t.Errorf("with all URLs dropped the plan is %+v", p)
	}
}

func TestVariablesThatStealOrLoadAreRefused(t *testing.T) {
	for _, name := range strings.Fields(`PATH LD_PRELOAD LD_LIBRARY_PATH LD_AUDIT ld_preload GCONV_PATH PYTHONPATH PYTHONSTARTUP
		PYTHONHOME PERL5LIB PERL5OPT RUBYOPT RUBYLIB NODE_OPTIONS NODE_PATH NODE_EXTRA_CA_CERTS JAVA_TOOL_OPTIONS _JAVA_OPTIONS
		JDK_JAVA_OPTIONS CLASSPATH BASH_ENV BASH_FUNC_ls ENV IFS SHELLOPTS PS4 PROMPT_COMMAND DOTNET_STARTUP_HOOKS
		CORECLR_PROFILER_PATH COMPlus_x COR_PROFILER GIT_SSH_COMMAND GIT_EXEC_PATH SSL_CERT_FILE REQUESTS_CA_BUNDLE CURL_CA_BUNDLE
		HTTP_PROXY https_proxy ALL_PROXY no_proxy KUBERNETES_SERVICE_HOST KUBECONFIG AWS_CONFIG_FILE AWS_ENDPOINT_URL
		GOOGLE_APPLICATION_CREDENTIALS HOME TMPDIR LOCPATH HOSTALIASES GODEBUG PHPRC PHP_INI_SCAN_DIR LUA_PATH LESSOPEN
		MAVEN_OPTS CATALINA_OPTS OPENSSL_CONF CUDA_INJECTION64_PATH VK_ICD_FILENAMES ISTIO_META_X OTEL_EXPORTER_OTLP_ENDPOINT _`) {
		t.Run(name, func(t *testing.T) {
			mustFail(t, pod("m.url: s3://b/k", "m.env: "+name), "m.env", name, "may not be set")
		})
	}
	for _, name := range strings.Fields("MODEL_URL MODEL_URLS TRAIN_DATASET_URL BASE_MODEL_URL DATA X HF_HOME _x GOOD_MODEL RESULT_URL OUTPUT") {
		mustParse(t, "m.url: s3://b/k", "m.env: "+name)
	}
}

func TestMountPathsOverProgramsAndIdentityAreRefused(t *testing.T) {
	for _, p := range strings.Fields(`/ // /proc /proc/1 /sys /dev /dev/shm /etc /etc/x /usr /usr/local/models /bin /sbin /lib /lib64 /lib/x
		/var /var/run /var/run/secrets /var/run/secrets/x /run /run/secrets /hostpath /hostpath/x /root /downloads/../etc
		/opt/venv/lib/python3/site-packages /home/u/.local relative ./x /a:b /a;b /a,b`) {
		t.Run(p, func(t *testing.T) {
			mustFail(t, pod("m.url: s3://b/k", "mount-path: "+p), "storage.sedna.io/mount-path")
		})
	}
	for _, p := range []string{"/models", "/opt/ml/model", "/mnt/models/", "/var/models", "/home/user/models", "/etcetera", "/developers"} {
		mustParse(t, "m.url: s3://b/k", "mount-path: "+p)
	}
}

func TestAVariableLongerThanLinuxAllowsIsRefused(t *testing.T) {
	var urls []string
	for i := range 600 {
		urls = append(urls, fmt.Sprintf("s3://b/%s%03d", strings.Repeat("x", 230), i))
	}
	mustFail(t, pod("m.env: V", "m.url: "+strings.Join(urls, ";")), "m.env", "131072")
	if _, err := Parse(pod("m.url: " + strings.Join(urls, ";"))); err != nil {
		t.Errorf("without a variable: %v", err)
	}
}

func TestAllMistakesComeAtOnceInOneBoundedStableLine(t *testing.T) {
	lines := []string{"volum: x", "a.url: ftp://x", "b.env: PATH", "mount-path: /etc"}
	_, err := Parse(pod(lines...))
	for _, say := range []string{"volume?", "a.url", "b.env", "b.url", "mount-path", "5 mistakes"} {
		if !strings.Contains(err.Error(), say) {
			t.Errorf("the error does not say %q: %v", say, err)
		}
	}
	for i := range 300 {
		lines = append(lines, fmt.Sprintf("m%d.url: ftp://%s", i%200, strings.Repeat("x", 100)), fmt.Sprintf("k%d: x", i))
	}
	_, err = Parse(pod(lines...))
	if len(err.Error()) > 900 || strings.Contains(err.Error(), "\n") {
		t.Errorf("the error has %d bytes: %v", len(err.Error()), err)
	}
	for range 20 {
		if _, again := Parse(pod(lines...)); again.Error() != err.Error() {
			t.Fatalf("another order:\n%v\n%v", err, again)
		}
	}
}

func TestHugeInputIsRefusedFast(t *testing.T) {
	many := map[string]string{}
	for i := range 200_000 {
		many[fmt.Sprintf("%sm%d.url", Prefix, i)] = "s3://b/k"
	}
	mounts := map[string]string{}
	for i := range MaxMounts + 1 {
		mounts[fmt.Sprintf("%sm%d.url", Prefix, i)] = "s3://b/k"
	}
	for name, a := range map[string]map[string]string{
		"many keys":    many,
		"many mounts":  mounts,
		"many URLs":    pod("m.url: " + strings.Repeat("s3://b/k;", 20_000)),
		"a huge value": pod("m.url: s3://b/" + strings.Repeat("a/", 2<<20)),
		"deep paths":   pod("m.url: " + strings.Repeat("s3://b/"+strings.Repeat("a/", 900)+"x;", 130)),
	} {
		start := time.Now()
		if _, err := Parse(a); err == nil {
			t.Errorf("%s: accepted", name)
		}
		// Not a measurement: a quadratic algorithm takes minutes here.
		if d := time.Since(start); d > 20*time.Second {
			t.Errorf("%s: took %v", name, d)
		}
	}
}

func TestASecretInAWrongPlaceIsNotRepeated(t *testing.T) {
	for _, line := range []string{
		"m.url: https://user:CANARY@h:port/x",
		"m.url: https://user:CANARY/x",
		"m.url: https://user:CANARY/y@h/x",
		"m.url: https://h/f?a=1;sig=CANARY",
		"m.url: https://user:x;CANARY@h/f",
		"m.url: s3://key:CANARY@bucket/x",
		"m.url: s3:CANARY@bucket/x",
		"m.url: ftp://user:CANARY@h/x",
		"m.url: https://ho st/x?sig=CANARY",
		"m.url: https://h/%zz?sig=CANARY",
		"m.url: https://h/?sig=CANARY",
		"m.url: https://h/../x?sig=CANARY#CANARY",
		"m.url: sig=CANARY",
		"m.digest: CANARY=CANARY",
		"m.mode: token=CANARY",
		"secret: user:CANARY@x",
		"s3-region: key=CANARY",
		"s3-endpoint: https://h?key=CANARY",
		"s3-endpoint: user:CANARY@h",
		"mount-path: x?CANARY",
		"m.env: X=CANARY",
		"max-bytes: x=CANARY",
		"containers: a@CANARY",
		"m.include: [=CANARY",
	} {
		t.Run(line, func(t *testing.T) {
			annotations := pod("m.url: s3://b/k/", line)
			_, err := Parse(annotations)
			if err == nil || strings.Contains(err.Error(), canary) {
				t.Errorf("the error is %v", err)
			}
		})
	}
}
