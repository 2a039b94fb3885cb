// SPDX-License-Identifier: Apache-2.0

package storage_test

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/errdefs"

	"github.com/sedna-io/containerd-shim-sedna/storage"
	"github.com/sedna-io/containerd-shim-sedna/storage/plan"
	"github.com/sedna-io/containerd-shim-sedna/storage/storagetest"
	"github.com/sedna-io/containerd-shim-sedna/storage/worker"
)

// secretItem is an item with a canary in every place that may hold a secret.
func secretItem(t *testing.T, raw string) worker.Item {
	i := item(t, raw, "f")
	i.Credentials = plan.Credentials{
		From: `the pod's volume "keys"`, BearerToken: plan.NewSecret("CANARY-bearer"),
		Headers: map[string]plan.Secret{"X-Key": plan.NewSecret("CANARY-header")},
	}
	return i
}

// leaks are the forms in which a canary would show.
func leaks(text string) bool {
	return strings.Contains(text, "CANARY") || strings.Contains(text, base64.StdEncoding.EncodeToString([]byte("CANARY"))[:6])
}

func TestCredentialsGoToTheirOwnHostOnly(t *testing.T) {
	web := storagetest.NewFiles()
	web.Put("/final", []byte("data"))
	var mu sync.Mutex
	var seen []http.Header
	other := storagetest.Serve(t, web, nil)
	other.Watch(func(r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, r.Header.Clone())
	})
	own := storagetest.Serve(t, web, storagetest.Always(storagetest.Redirect(http.StatusFound, other.URL+"/final?sig=theirs")))
	first := http.Header{}
	own.Watch(func(r *http.Request) { first = r.Header.Clone() })
	dir := t.TempDir()
	if _, err := run(t, dir, request(secretItem(t, own.URL+"/f?sig=CANARY-query"))); err != nil {
		t.Fatal(err)
	}
	wantFiles(t, dir, map[string]string{"f": "data"})
	if first.Get("Authorization") != "Bearer CANARY-bearer" || first.Get("X-Key") != "CANARY-header" {
		t.Errorf("its own host got %v", first)
	}
	for _, h := range seen {
		if leaks(fmt.Sprint(h)) {
			t.Errorf("another host got %v", h)
		}
	}

	t.Run("and a name and password in the URL", func(t *testing.T) {
		seen, first = nil, nil
		u, _ := url.Parse(own.URL)
		u.User, u.Path = url.UserPassword("CANARY-user", "CANARY-password"), "/f"
		if _, err := run(t, t.TempDir(), request(item(t, u.String(), "f"))); err != nil {
			t.Fatal(err)
		}
		r := http.Request{Header: first}
		if name, password, _ := r.BasicAuth(); name != "CANARY-user" || password != "CANARY-password" {
			t.Errorf("its own host got %v", first)
		}
		if len(seen) == 0 || leaks(fmt.Sprint(seen)) || seen[0].Get("Authorization") != "" {
			t.Errorf("another host got %v", seen)
		}
	})
}

func TestNothingThatIsWrittenShowsASecret(t *testing.T) {
	canaries := "user:CANARY-password@"
	faults := map[string]storagetest.Choose{
		"success": nil, "not found": always(storagetest.Status(404, "")), "forbidden": always(storagetest.Status(403, "")),
		"cut": always(storagetest.Cut(0)), "loop": always(storagetest.Redirect(302, "/again?sig=CANARY-again")),
		"bad redirect": always(storagetest.Redirect(302, "ht!tp://%zz?CANARY-location")), "length": always(storagetest.WrongLength(5)),
		"to a dead host": always(storagetest.Redirect(302, "http://127.0.0.1:1/?sig=CANARY-dead")),
	}
	for name, choose := range faults {
		t.Run(name, func(t *testing.T) {
			web := storagetest.NewFiles()
			web.Put("/f.bin", storagetest.Bytes(5<<20))
			s := storagetest.Serve(t, web, choose)
			i := secretItem(t, strings.Replace(s.URL, "http://", "http://"+canaries, 1)+"/f.bin?sig=CANARY-query&x=%43ANARY-encoded#CANARY-fragment")
			dir := t.TempDir()
			report, events, err := runContext(t.Context(), t, dir, request(i))
			var failure worker.Failure
			if err != nil {
				failure = storage.AsFailure(err)
			}
			told, jsonErr := json.Marshal([]any{report, events, failure})
			if jsonErr != nil {
				t.Fatal(jsonErr)
			}
			if leaks(string(told)) || leaks(fmt.Sprintf("%v %+v", err, err)) {
				t.Errorf("a secret shows: %s %v", told, err)
			}
			_ = filepath.WalkDir(filepath.Join(dir, ".sedna"), func(p string, d fs.DirEntry, err error) error {
				if err != nil || d.IsDir() {
					return err
				}
				b, _ := os.ReadFile(p)
				if leaks(string(b)) || leaks(p) {
					t.Errorf("a secret is in %s", p)
				}
				return nil
			})
		})
	}
}

func TestTheNodesNetworkIsNoWayIn(t *testing.T) {
	web := storagetest.NewFiles()
	web.Put("/f", []byte("metadata"))
	s := storagetest.Serve(t, web, nil)
	_, port, _ := strings.Cut(strings.TrimPrefix(s.URL, "http://"), ":")
	for _, raw := range []string{s.URL + "/f", "http://localhost:" + port + "/f", "http://[::ffff:127.0.0.1]:" + port + "/f", "http://0.0.0.0:" + port + "/f"} {
		req := request(item(t, raw, "f"))
		req.Network.Host = true
		_, err := run(t, t.TempDir(), req)
		if !errors.Is(err, errdefs.ErrPermissionDenied) || !strings.Contains(err.Error(), "may not be dialled") {
			t.Errorf("%s: error is %v", raw, err)
		}
	}
	if n := s.Requests.Load(); n != 0 {
		t.Errorf("%d requests arrived", n)
	}

	t.Run("nor by a redirect", func(t *testing.T) {
		// The first hop is allowed, the second is another loopback address.
		to := storagetest.Serve(t, web, storagetest.Always(storagetest.Redirect(302, "http://127.0.0.2:"+port+"/f")))
		req := request(item(t, to.URL+"/f", "f"))
		req.Network = worker.Network{Host: true, Allow: []string{"127.0.0.1/32"}}
		_, err := run(t, t.TempDir(), req)
		if !errors.Is(err, errdefs.ErrPermissionDenied) || !strings.Contains(err.Error(), "127.0.0.2") {
			t.Errorf("error is %v", err)
		}
	})
	t.Run("and deny_cidrs hold in a pod's network too", func(t *testing.T) {
		req := request(item(t, s.URL+"/f", "f"))
		req.Network.Deny = []string{"127.0.0.0/8"}
		if _, err := run(t, t.TempDir(), req); !errors.Is(err, errdefs.ErrPermissionDenied) {
			t.Errorf("error is %v", err)
		}
	})
	t.Run("nor through a proxy by address", func(t *testing.T) {
		proxy := storagetest.Serve(t, web, nil)
		req := request(item(t, "http://169.254.169.254/f", "f"))
		req.Network = worker.Network{Host: true, Proxy: proxy.URL}
		if _, err := run(t, t.TempDir(), req); !errors.Is(err, errdefs.ErrPermissionDenied) || proxy.Requests.Load() != 0 {
			t.Errorf("error is %v, and the proxy got %d requests", err, proxy.Requests.Load())
		}
	})
}

func TestAProxyIsUsedWhereTheNodeNamesOne(t *testing.T) {
	web := storagetest.NewFiles()
	web.Put("/f", []byte("by proxy"))
	proxy := storagetest.Serve(t, web, nil)
	req := request(item(t, "http://example.invalid/f", "f"))
	req.Network.Proxy = proxy.URL
	dir := t.TempDir()
	if _, err := run(t, dir, req); err != nil {
		t.Fatal(err)
	}
	wantFiles(t, dir, map[string]string{"f": "by proxy"})
}

func TestTrustIsWhatTheNodeAndTheSecretSay(t *testing.T) {
	web := storagetest.NewFiles()
	web.Put("/f", []byte("data"))
	s := storagetest.ServeTLS(t, web, nil)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	_, port, _ := strings.Cut(strings.TrimPrefix(s.URL, "https://"), ":")
	for _, tt := range []struct {
		name string
		url  string
		edit func(*worker.Request)
		says string
	}{
		{"unknown", s.URL, func(*worker.Request) {}, "ca_file"},
		{"the node's", s.URL, func(r *worker.Request) { r.Network.CABundle = ca }, ""},
		{"the secret's", s.URL, func(r *worker.Request) { r.Items[0].Credentials.CABundle = ca }, ""},
		{"the node's endpoint skips it", s.URL, func(r *worker.Request) { r.Items[0].Credentials.SkipVerify = true }, ""},
		{"another name", "https://localhost:" + port, func(r *worker.Request) { r.Network.CABundle = ca }, "another name"},
		{"http where it is https", "http://127.0.0.1:" + port, func(*worker.Request) {}, "400"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			req := request(item(t, tt.url+"/f", "f"))
			tt.edit(&req)
			_, err := run(t, t.TempDir(), req)
			if tt.says == "" && err != nil || tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says)) {
				t.Errorf("error is %v, want %q", err, tt.says)
			}
		})
	}
	t.Run("and one item's trust is no other's", func(t *testing.T) {
		req := request(item(t, s.URL+"/f", "a"), item(t, s.URL+"/f?other", "b"))
		req.Items[0].Credentials.CABundle = ca
		if _, err := run(t, t.TempDir(), req); !errors.Is(err, errdefs.ErrPermissionDenied) || !strings.Contains(err.Error(), "unknown authority") {
			t.Errorf("error is %v", err)
		}
	})
	t.Run("and https never becomes http", func(t *testing.T) {
		plain := storagetest.Serve(t, web, nil)
		s.Set(storagetest.Always(storagetest.Redirect(302, plain.URL+"/f")))
		req := request(item(t, s.URL+"/f", "f"))
		req.Network.CABundle = ca
		if _, err := run(t, t.TempDir(), req); err == nil || !strings.Contains(err.Error(), "https to http") || plain.Requests.Load() != 0 {
			t.Errorf("error is %v", err)
		}
	})
}

func TestUnreachableServersAreNamed(t *testing.T) {
	for raw, says := range map[string]string{
		"http://127.0.0.1:1/f":           "was refused",
		"http://name.invalid/f":          "can't be resolved",
		"https://name.invalid/f?sig=xyz": "can't be resolved",
	} {
		_, err := run(t, t.TempDir(), request(item(t, raw, "f")))
		if !errors.Is(err, errdefs.ErrUnavailable) || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "xyz") {
			t.Errorf("%s: error is %v", raw, err)
		}
	}
}

func TestServersThatSpeakOnlyHTTP2(t *testing.T) {
	data := storagetest.Bytes(9 << 20)
	web := storagetest.NewFiles()
	web.Put("/f", data)
	s := storagetest.ServeHTTP2(t, web)
	s.Watch(func(r *http.Request) {
		if r.ProtoMajor != 2 {
			t.Errorf("it spoke %s", r.Proto)
		}
	})
	req := request(item(t, s.URL+"/f", "f"))
	req.Network.CABundle = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	dir := t.TempDir()
	if _, err := run(t, dir, req); err != nil {
		t.Fatal(err)
	}
	wantFiles(t, dir, map[string]string{"f": string(data)})
}

func TestRedirectsAreRemembered(t *testing.T) {
	data := storagetest.Bytes(20 << 20)
	web := storagetest.NewFiles()
	web.Put("/signed", data)
	files := storagetest.Serve(t, web, nil)
	hub := storagetest.Serve(t, web, storagetest.Always(storagetest.Redirect(302, files.URL+"/signed?sig=1")))
	dir := t.TempDir()
	if _, err := run(t, dir, request(item(t, hub.URL+"/f", "f"))); err != nil {
		t.Fatal(err)
	}
	wantFiles(t, dir, map[string]string{"f": string(data)})
	if n := hub.Requests.Load(); n != 1 {
		t.Errorf("the first server was asked %d times", n)
	}

	t.Run("until they are refused", func(t *testing.T) {
		asked := 0
		files.Set(func(int, *http.Request) storagetest.Fault {
			if asked++; asked == 3 {
				return storagetest.Status(403, "") // the signature's time is over
			}
			return nil
		})
		dir := t.TempDir()
		if _, err := run(t, dir, request(item(t, hub.URL+"/f", "f"))); err != nil {
			t.Fatal(err)
		}
		wantFiles(t, dir, map[string]string{"f": string(data)})
	})
}

func TestAtFirstARefusedConnectionMayPass(t *testing.T) {
	for _, early := range []time.Duration{0, time.Minute} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addr := l.Addr().String()
		l.Close()
		req := request(item(t, "http://"+addr+"/f", "f"))
		req.Network.Early = early
		root, err := os.OpenRoot(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		events := 0
		_, err = storage.Run(t.Context(), root, req, func(worker.Event) {
			// By the second one it has been refused for half a second.
			if events++; events != 2 {
				return
			}
			l, err := net.Listen("tcp", addr)
			if err != nil {
				return
			}
			s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "up") })}
			go func() { _ = s.Serve(l) }()
			t.Cleanup(func() { s.Close() })
		})
		if (err == nil) != (early > 0) {
			t.Errorf("early for %s: error is %v", early, err)
		}
	}
}
