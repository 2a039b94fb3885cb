// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
)

// checkPromises is what holds for any annotations that a stranger writes.
func checkPromises(t *testing.T, annotations map[string]string) {
	t.Helper()
	p, err := Parse(annotations)
	if err != nil {
		if !errors.Is(err, errdefs.ErrInvalidArgument) {
			t.Fatalf("%v is no ErrInvalidArgument", err)
		}
		if text := err.Error(); len(text) > 900 || strings.ContainsAny(text, "\n\r\x00\x1b") {
			t.Fatalf("the error is no single short line: %q", text)
		}
	} else {
		checkInsideRoots(t, p)
	}
	again, errAgain := Parse(annotations)
	first, _ := json.Marshal(p)
	second, _ := json.Marshal(again)
	if !bytes.Equal(first, second) || fmt.Sprint(err) != fmt.Sprint(errAgain) {
		t.Fatalf("the same input gives\n%s %v\nand\n%s %v", first, err, second, errAgain)
	}
}

// checkInsideRoots wants every path below the download volume, below /hostpath
// or a clean absolute one.
func checkInsideRoots(t *testing.T, p *Plan) {
	t.Helper()
	below := func(what, name string) {
		if !filepath.IsLocal(name) || path.Clean(name) != name || strings.HasPrefix(name, ".") {
			t.Fatalf("%s %q leaves the download volume or hides in it", what, name)
		}
	}
	absolute := func(what, name string) {
		if !path.IsAbs(name) || path.Clean(name) != name || name == "/" || strings.Contains(name, "\x00") {
			t.Fatalf("%s %q is no clean absolute path", what, name)
		}
	}
	absolute("mount path", p.MountPath)
	if checkMountPath(p.MountPath) != nil || !label.matches(p.Volume) {
		t.Fatalf("mounts %q at %q", p.Volume, p.MountPath)
	}
	for _, d := range p.Downloads {
		below("download", d.Path)
		if d.Secret != "" && !label.matches(d.Secret) {
			t.Fatalf("the secret volume is %q", d.Secret)
		}
	}
	for _, h := range p.HostPaths {
		absolute("host path", h.Source)
		if h.Destination != HostPathRoot+h.Source {
			t.Fatalf("%q appears at %q", h.Source, h.Destination)
		}
	}
	for _, v := range p.Variables {
		if checkVariable(v.Name) != nil {
			t.Fatalf("sets %q", v.Name)
		}
		for _, value := range v.Values {
			if value.Download != "" {
				below("variable", value.Download)
			}
		}
	}
}

// shown is everything that a plan or its error shows to anybody.
func shown(p *Plan, err error) []byte {
	asJSON, _ := json.Marshal(p)
	text := fmt.Sprintf("%s\n%v\n%+v\n", asJSON, err, p)
	if p != nil {
		for _, v := range p.Variables {
			text += v.Redacted(p.MountPath) + "\n"
		}
		for _, d := range p.Downloads {
			text += fmt.Sprintf("%s %v %+v %#v %q %x\n", d.URL, d, d, d, d.URL, d.URL)
		}
	}
	var all *Error
	if errors.As(err, &all) {
		text += fmt.Sprintf("%+v", all.Mistakes)
	}
	return []byte(text)
}

// withCanary puts secrets into every URL where a URL can have one.
func withCanary(annotations map[string]string) map[string]string {
	out := map[string]string{}
	for key, value := range annotations {
		out[key] = value
		if !strings.HasSuffix(key, ".url") {
			continue
		}
		parts := strings.Split(value, ";")
		for i, part := range parts {
			scheme, rest, ok := strings.Cut(part, "://")
			if !ok || strings.ContainsAny(rest, "?#@") {
				continue
			}
			parts[i] = scheme + "://user:" + canary + "@" + rest + "?X-Sig=" + canary + "&" + canary + "#" + canary
		}
		out[key] = strings.Join(parts, ";")
	}
	return out
}

func checkNoCanary(t *testing.T, annotations map[string]string) {
	t.Helper()
	if strings.Contains(fmt.Sprint(annotations), canary) {
		return
	}
	secret := withCanary(annotations)
	if text := shown(Parse(secret)); bytes.Contains(text, []byte(canary)) {
		t.Fatalf("a secret of %q is shown:\n%s", secret, text)
	}
}

// hostilePieces are joined at random into values.
var hostilePieces = strings.Fields(`s3 :// : / // .. . ; ; b bucket k.zip .tar.gz m ? # @ % %2e%2e %2f %00 %zz https http file obs ftp
	h h:80 [::1] \ ~ * ** [ true false readonly writeonly allow never 0 1 sha256: /opt/data /proc /etc MODEL_URL LD_PRELOAD PATH
	x=y = & s3://b/k https://h/f https://h/f?x=1 /opt/a/b file:///y minio:9000`)

func randomAnnotations(r *rand.Rand) map[string]string {
	a := map[string]string{}
	for range 1 + r.IntN(6) {
		key := Prefix + PodKeys[r.IntN(len(PodKeys))]
		if r.IntN(4) > 0 {
			key = mountKey(string(rune('a'+r.IntN(3))), MountFields[r.IntN(len(MountFields))])
		}
		if r.IntN(2) == 0 {
			key = mountKey(string(rune('a'+r.IntN(3))), "url")
		}
		var value strings.Builder
		for range r.IntN(6) {
			value.WriteString(hostilePieces[r.IntN(len(hostilePieces))])
		}
		a[key] = value.String()
	}
	return a
}

func TestNoAnnotationsBreakThePromises(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	plans := 0
	for range 20_000 {
		a := randomAnnotations(r)
		func() {
			defer func() {
				if t.Failed() {
					t.Logf("seed %d, annotations %q", seed, a)
				}
			}()
			checkPromises(t, a)
			checkNoCanary(t, a)
		}()
		if p, err := Parse(a); err == nil && p.Asks() {
			plans++
		}
	}
	if plans < 100 {
		t.Errorf("only %d of the cases gave a plan: the test tests little", plans)
	}
}

// fromText reads annotations as "key: value" lines, for fuzzing.
func fromText(text string) map[string]string {
	a := map[string]string{}
	for line := range strings.SplitSeq(text, "\n") {
		key, value, _ := strings.Cut(line, ": ")
		a[Prefix+key] = value
	}
	return a
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"m.url: s3://b/k\nm.env: V",
		"m.url: https://u:p@h:1/a%2fb?x=1;file:///y;/opt/d/\nm.env: V\nm.mode: writeonly\nvolume: x\nmount-path: /m",
		"m.url: s3://b/m.zip\nm.digest: sha256:" + strings.Repeat("ab", 32) + "\nm.include: **/a*;b\nm.indirect: true",
		"max-bytes: 1.5Gi\ncontainers: a;b\ns3-endpoint: http://h:9/\ns3-usehttps: 0\nwritable: true\nx.y: z",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a := fromText(text)
		checkPromises(t, a)
		checkNoCanary(t, a)
	})
}

func FuzzParseURL(f *testing.F) {
	for _, seed := range []string{"s3://b/k?x#y", "https://u:p@[::1]:8/a/../b%20c?d=e", "obs:/x", "HTTP://h/%2e"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := ParseURL(raw)
		if err != nil {
			return
		}
		if u.Reveal() != raw {
			t.Fatalf("%q reveals %q", raw, u.Reveal())
		}
		name := path.Join(u.Host, u.Path)
		if !filepath.IsLocal(name) || strings.HasPrefix(name, ".") {
			t.Fatalf("%q lands at %q", raw, name)
		}
		again, err := ParseURL(u.String())
		if err != nil || again.Host != u.Host || again.Path != u.Path {
			t.Fatalf("%q shows as %q, which parses to %q %q, %v", raw, u, again.Host, again.Path, err)
		}
		if u.Under(u.Scheme + "://other-" + u.Host + "/") {
			t.Fatalf("%q is under another host", raw)
		}
	})
}

func FuzzParseCredentials(f *testing.F) {
	f.Add("ACCESS_KEY_ID", "a", "SECRET_ACCESS_KEY", "b", "h")
	f.Add("h-headers", `{"X":"CANARY"}`, "S3_ENDPOINT_URL", "https://h:1", "h:8")
	f.Add("username", "u\n", "password", "p", "")
	f.Fuzz(func(t *testing.T, name1, value1, name2, value2, host string) {
		c, err := ParseCredentials(map[string][]byte{name1: []byte(value1), name2: []byte(value2)}, host)
		if err != nil {
			if len(err.Error()) > 900 {
				t.Fatalf("the error has %d bytes", len(err.Error()))
			}
			return
		}
		for header, value := range c.Headers {
			if strings.ContainsAny(header+value.Reveal(), "\r\n\x00") {
				t.Fatalf("the header %q: %q is two", header, value.Reveal())
			}
		}
		for _, s := range []Secret{c.AccessKey, c.SecretKey, c.SessionToken, c.BearerToken, c.Username, c.Password} {
			if strings.ContainsAny(s.Reveal(), "\r\n\x00") {
				t.Fatalf("a credential has a line break: %q", s.Reveal())
			}
		}
		if c.AccessKey.IsZero() != c.SecretKey.IsZero() {
			t.Fatal("half a key pair")
		}
	})
}

func FuzzSelects(f *testing.F) {
	f.Add("**/a*;b/*", "c/a1")
	f.Fuzz(func(t *testing.T, patterns, name string) {
		parsed, err := ParsePatterns(patterns)
		if err != nil {
			return
		}
		d := Download{Include: parsed}
		not := Download{Exclude: parsed}
		if len(parsed) > 0 && d.Selects(name) == not.Selects(name) {
			t.Fatalf("%q is both included and excluded, or neither, by %q", name, parsed)
		}
	})
}
