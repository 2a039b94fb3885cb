// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"
)

// canary stands for a secret: no text made for people may have it.
const canary = "CANARY"

func files(pairs ...string) map[string][]byte {
	f := map[string][]byte{}
	for i := 0; i < len(pairs); i += 2 {
		f[pairs[i]] = []byte(pairs[i+1])
	}
	return f
}

func testCA(t testing.TB) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"},
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func TestEachNameOfACredentialIsFoundInItsOrder(t *testing.T) {
	for i := range accessKeyNames {
		f := map[string][]byte{}
		for j := i; j < len(accessKeyNames); j++ {
			f[accessKeyNames[j]] = fmt.Appendf(nil, "key%d\n", j)
			f[secretKeyNames[j]] = fmt.Appendf(nil, "secret%d\r\n", j)
		}
		c, err := ParseCredentials(f, "b")
		if err != nil {
			t.Fatal(err)
		}
		if c.AccessKey.Reveal() != fmt.Sprintf("key%d", i) || c.SecretKey.Reveal() != fmt.Sprintf("secret%d", i) {
			t.Errorf("found %q and %q for the %d-th names", c.AccessKey.Reveal(), c.SecretKey.Reveal(), i)
		}
	}
}

func TestAllKindsOfCredentialsAreRead(t *testing.T) {
	ca := testCA(t)
	c, err := ParseCredentials(files(
		"AWS_ACCESS_KEY_ID", "ak", "awsSecretAccessKey", "sk", "AWS_SESSION_TOKEN", "st",
		"AWS_ENDPOINT_URL", "http://minio:9000/\n", "AWS_DEFAULT_REGION", "eu-1",
		"ca.crt", "# ours\n"+ca, "HF_TOKEN", "hf", "h-headers", `{"x-a":"1","Cookie":"c"}`, "unrelated", "\x00",
	), "H:8443")
	if err != nil {
		t.Fatal(err)
	}
	got := []string{c.AccessKey.Reveal(), c.SecretKey.Reveal(), c.SessionToken.Reveal(), c.Endpoint, fmt.Sprint(*c.Insecure), c.Region, c.BearerToken.Reveal(), c.Headers["X-A"].Reveal(), c.Headers["Cookie"].Reveal()}
	if want := "[ak sk st minio:9000 true eu-1 hf 1 c]"; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %v", got, want)
	}
	if !strings.Contains(string(c.CABundle), "BEGIN CERTIFICATE") {
		t.Error("the CA bundle is gone")
	}
	if c, err = ParseCredentials(files("username", "u", "password", " p \n"), "h"); err != nil || c.Password.Reveal() != " p " {
		t.Errorf("basic: %q, %v", c.Password.Reveal(), err)
	}
}

func TestHeadersAreForTheirHostOnly(t *testing.T) {
	f := files("h:8443-headers", `{"A":"1"}`, "other-headers", `{"B":"2"}`)
	for host, want := range map[string]int{"h:8443": 1, "H:8443": 1, "other": 1, "other:443": 1, "h": 0, "x": 0} {
		c, err := ParseCredentials(f, host)
		if err != nil || len(c.Headers) != want {
			t.Errorf("%s: %d headers, %v", host, len(c.Headers), err)
		}
	}
}

func TestBadCredentialsAreRefusedWithoutBeingShown(t *testing.T) {
	pemKey := "-----BEGIN PRIVATE KEY-----\nQ0FOQVJZ\n-----END PRIVATE KEY-----\n"
	for _, c := range []struct {
		name  string
		files map[string][]byte
		say   string
	}{
		{"access key alone", files("ACCESS_KEY_ID", canary), "SECRET_ACCESS_KEY"},
		{"secret key alone", files("AWS_SECRET_ACCESS_KEY", canary), "ACCESS_KEY_ID"},
		{"half a pair by an empty file", files("ACCESS_KEY_ID", canary, "SECRET_ACCESS_KEY", "\n"), "half"},
		{"token alone", files("SESSION_TOKEN", canary), "ACCESS_KEY_ID"},
		{"name without password", files("username", canary), "password"},
		{"two ways to authorize", files("BEARER_TOKEN", canary, "username", "u", "password", canary), "several ways"},
		{"header and token", files("BEARER_TOKEN", canary, "h-headers", `{"authorization":"CANARY"}`), "several ways"},
		{"line break in a token", files("BEARER_TOKEN", "x\r\nHost: "+canary), "line break"},
		{"line break in a key", files("ACCESS_KEY_ID", "a\n"+canary, "SECRET_ACCESS_KEY", "s"), "ACCESS_KEY_ID"},
		{"header injection by value", files("h-headers", `{"X":"a\r\nY: CANARY"}`), "line break"},
		{"header injection by name", files("h-headers", `{"X: CANARY\r\nY":"a"}`), "header"},
		{"header Host", files("h-headers", `{"host":"CANARY"}`), "Host"},
		{"header Range", files("h-headers", `{"RANGE":"bytes=0-CANARY"}`), "Range"},
		{"header Proxy-Authorization", files("h-headers", `{"proxy-authorization":"CANARY"}`), "Proxy-Authorization"},
		{"header twice", files("h-headers", `{"x-a":"CANARY","X-A":"b"}`), "twice"},
		{"headers that are no JSON", files("h-headers", `X: CANARY`), "JSON"},
		{"headers that are no texts", files("h-headers", `{"X":{"CANARY":1}}`), "JSON"},
		{"endpoint with a path", files("S3_ENDPOINT_URL", "https://h/CANARY"), "path"},
		{"endpoint with a password", files("S3_ENDPOINT_URL", "https://u:CANARY@h"), "credentials"},
		{"endpoint of another scheme", files("S3_ENDPOINT_URL", "ftp://h"), "http"},
		{"region", files("S3_REGION", "a b"), "region"},
		{"a CA that is none", files("CA_BUNDLE", "CANARY"), "no PEM"},
		{"a private key as CA", files("ca.crt", pemKey), "something else"},
		{"a broken certificate", files("ca.crt", "-----BEGIN CERTIFICATE-----\nQ0FOQVJZ\n-----END CERTIFICATE-----\n"), "can't be read"},
		{"a huge token", files("HF_TOKEN", strings.Repeat(canary, 20_000)), "more than"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := ParseCredentials(c.files, "h")
			if !errors.Is(err, errdefs.ErrInvalidArgument) || !strings.Contains(err.Error(), c.say) {
				t.Fatalf("the error does not say %q: %v", c.say, err)
			}
			if strings.Contains(err.Error(), canary) && c.name != "header injection by name" && c.name != "endpoint with a path" {
				t.Errorf("the error shows a secret: %v", err)
			}
		})
	}
}

func TestCredentialsCantPrintThemselves(t *testing.T) {
	s := NewSecret(canary)
	c := Credentials{
		From: "the environment", AccessKey: s, SecretKey: s, SessionToken: s, BearerToken: s,
		Username: s, Password: s, Headers: map[string]Secret{"X": s},
	}
	asJSON, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	texts := []string{string(asJSON), fmt.Sprint(&c), fmt.Sprint(struct{ C Credentials }{c})}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		texts = append(texts, fmt.Sprintf(verb, c), fmt.Sprintf(verb, s), fmt.Sprintf(verb, []Secret{s}))
	}
	for _, text := range texts {
		if strings.Contains(text, canary) || strings.Contains(text, fmt.Sprintf("%x", canary)) {
			t.Errorf("prints itself: %s", text)
		}
	}
	if got := c.String(); !strings.Contains(got, "access key") || !strings.Contains(got, "the environment") {
		t.Errorf("String is %q", got)
	}
}

func TestTheEndpointComesFromTheAnnotationThenTheSecretThenTheDefault(t *testing.T) {
	yes, no := true, false
	for _, c := range []struct {
		name     string
		s3       S3
		creds    Credentials
		host     string
		insecure bool
	}{
		{"nothing said", S3{}, Credentials{}, "s3.amazonaws.com", false},
		{"annotation", S3{Endpoint: "a:1"}, Credentials{Endpoint: "b", Insecure: &yes}, "a:1", false},
		{"annotation by http", S3{Endpoint: "a", Insecure: &yes}, Credentials{}, "a", true},
		{"secret", S3{}, Credentials{Endpoint: "b", Insecure: &yes}, "b", true},
		{"secret without a scheme", S3{}, Credentials{Endpoint: "b"}, "b", false},
		{"secret without a scheme, usehttps 0", S3{Insecure: &yes}, Credentials{Endpoint: "b"}, "b", true},
		{"secret with a scheme, usehttps 0", S3{Insecure: &yes}, Credentials{Endpoint: "b", Insecure: &no}, "b", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := Download{URL: URL{Scheme: "s3", Host: "bucket"}, S3: c.s3}
			host, insecure, err := d.Endpoint(c.creds)
			if err != nil || host != c.host || insecure != c.insecure {
				t.Errorf("got %s, %v, %v", host, insecure, err)
			}
		})
	}
	d := Download{URL: URL{Scheme: "s3", Host: "b"}, S3: S3{Region: "r1"}}
	if d.Region(Credentials{Region: "r2"}) != "r1" || (Download{}).Region(Credentials{Region: "r2"}) != "r2" {
		t.Error("the region doesn't follow the same order")
	}
}

func TestAnEndpointOfTheMountOverridesThePods(t *testing.T) {
	for _, c := range []struct {
		name     string
		lines    []string
		host     string
		insecure bool
	}{
		{"pod's", []string{"s3-endpoint: http://p"}, "p", true},
		{"mount's", []string{"s3-endpoint: http://p", "m.s3-endpoint: m"}, "m", false},
		{"mount's with the pod's usehttps", []string{"s3-usehttps: 0", "m.s3-endpoint: m"}, "m", true},
		{"mount's scheme over the pod's usehttps", []string{"s3-usehttps: 0", "m.s3-endpoint: https://m"}, "m", false},
		{"mount's usehttps", []string{"s3-endpoint: p", "m.s3-usehttps: 0"}, "p", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := mustParse(t, append(c.lines, "m.url: s3://b/k")...)
			host, insecure, err := p.Downloads[0].Endpoint(Credentials{})
			if err != nil || host != c.host || insecure != c.insecure {
				t.Errorf("got %s, %v, %v", host, insecure, err)
			}
		})
	}
}

func TestPrefixesAreComparedByPathSegments(t *testing.T) {
	for _, c := range []struct {
		url, prefix string
		want        bool
	}{
		{"s3://models/a/b", "s3://models/", true},
		{"s3://models/a/b", "s3://models", true},
		{"s3://models", "s3://models/", true},
		{"obs://models/a", "s3://models/a", true},
		{"s3://models/ab", "s3://models/a", false},
		{"s3://models-x/a", "s3://models", false},
		{"s3://MODELS/a", "s3://models", false},
		{"https://h/m/x", "https://H/m/", true},
		{"https://h:1/m/x", "https://h/m/", false},
		{"http://h/m/x", "https://h/m/", false},
		{"https://h/m/../x", "https://h/m/", false},
		{"https://h/s/../m/x", "https://h/m/", false},
		{"https://h/s%2f..%2fm/x", "https://h/", false},
		{"https://h/m//x", "https://h/m/", false},
		{"s3://models/a", "", false},
		{"s3://models/a", "s3://", false},
	} {
		u, err := ParseURL(c.url)
		if err != nil {
			t.Fatal(err)
		}
		if got := u.Under(c.prefix); got != c.want {
			t.Errorf("%s under %s is %v", c.url, c.prefix, got)
		}
	}
}

func TestAnEnvFileIsReadAndItsErrorsShowNoLine(t *testing.T) {
	f, err := ParseEnvFile([]byte("# minio\n\nexport ACCESS_KEY_ID=ak\nSECRET_ACCESS_KEY = \"s=k\"\n"))
	if err != nil || string(f["ACCESS_KEY_ID"]) != "ak" || string(f["SECRET_ACCESS_KEY"]) != "s=k" {
		t.Errorf("got %q, %v", f, err)
	}
	for _, bad := range []string{"A=b\nCANARY\n", "A=CANARY\nA=x", "=CANARY"} {
		if _, err := ParseEnvFile([]byte(bad)); err == nil || strings.Contains(err.Error(), canary) || !strings.Contains(err.Error(), "line ") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestASecretWithoutAnyKnownNameIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		files []string
		says  []string // none: it is fine
	}{
		"Sedna's names":         {[]string{"ACCESS_KEY_ID", "SECRET_ACCESS_KEY"}, nil},
		"an authority only":     {[]string{"ca.crt", "tls.key"}, nil},
		"headers of some host":  {[]string{"Models.example.com-Headers"}, nil},
		"names of one's own":    {[]string{"secret-key", "access-key"}, []string{`"access-key", "secret-key"`, "ACCESS_KEY_ID"}},
		"names in another case": {[]string{"access_key_id"}, []string{`"access_key_id"`, "ACCESS_KEY_ID"}},
		"more than are named":   {[]string{"a", "b", "c", "d", "e", "f", "g"}, []string{`"f", ...)`}},
	} {
		files := map[string][]byte{}
		for _, file := range c.files {
			files[file] = []byte("c4n4ry")
		}
		err := CheckNames(files)
		if (err != nil) != (c.says != nil) || err != nil && !errdefs.IsInvalidArgument(err) {
			t.Errorf("%s: error %v", name, err)
			continue
		}
		for _, part := range append(c.says, "known") {
			if err != nil && (!strings.Contains(err.Error(), part) || strings.Contains(err.Error(), "c4n4ry")) {
				t.Errorf("%s: %q isn't in %v", name, part, err)
			}
		}
	}
}
