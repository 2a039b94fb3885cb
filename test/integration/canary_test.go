// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"encoding/base64"
	"io/fs"
	"net/http"
	"net/http/httputil"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sedna-io/containerd-shim-sedna/storage/storagetest"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/node"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/web"
)

// needles are all forms in which the secrets of these tests may show: in clear,
// which %-encoding doesn't change, and in base64 at any of its three alignments.
func needles() []string {
	found := []string{canary}
	for pad := range 3 {
		text := base64.StdEncoding.EncodeToString([]byte("xxx"[:pad] + canary))
		// Without the ends, where the neighbours have a part.
		found = append(found, text[4:len(text)-4])
	}
	return found
}

// betrayed names a place where a secret shows.
func betrayed(t *testing.T, place, text string) {
	t.Helper()
	for _, needle := range needles() {
		if at := strings.Index(text, needle); at >= 0 {
			t.Errorf("a secret is in %s: ...%q", place, text[max(0, at-100):min(len(text), at+60)])
			return
		}
	}
}

// echo answers with an error that holds all of the request, as debugging
// servers and proxies do.
func echo(code int) storagetest.Fault {
	return func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		dump, _ := httputil.DumpRequest(r, false)
		w.Header().Set("X-Debug", r.URL.RawQuery+r.Header.Get("Authorization"))
		w.Header().Set("Retry-After", "86400")
		http.Error(w, "<Error><Code>"+canary+"</Code><Message>"+string(dump)+"</Message></Error>", code)
	}
}

// leaky are the failures of the kit, and some that carry secrets back.
func leaky() map[string]storagetest.Fault {
	return map[string]storagetest.Fault{
		"not found":             storagetest.Status(404, ""),
		"not found, echoed":     echo(404),
		"forbidden, echoed":     echo(403),
		"unauthorized, echoed":  echo(401),
		"broken, echoed":        echo(500),
		"too many, echoed":      echo(429),
		"teapot, echoed":        echo(418),
		"not implemented":       storagetest.Status(501, ""),
		"cut":                   storagetest.Cut(0),
		"a lying length":        storagetest.WrongLength(1000),
		"no end":                storagetest.ChunkedCut(1 << 20),
		"an old server":         storagetest.Old(1 << 30),
		"a shifted part":        storagetest.Shifted(512),
		"200 with a range":      storagetest.RangedOK(),
		"an unlabelled part":    storagetest.Unlabelled(),
		"encoded":               storagetest.Encoded(canary),
		"a web page":            storagetest.Page(),
		"redirected for ever":   storagetest.Redirect(302, "/redirected_for_ever/model.bin?token="+canary),
		"redirected to a file":  storagetest.Redirect(302, "file:///"+canary),
		"redirected to nowhere": storagetest.Redirect(302, "http://%zz/"+canary),
		"redirected to a host":  storagetest.Redirect(302, "http://"+canary+".example.com:1/"),
		"redirected with a key": storagetest.Redirect(302, "http://u:"+canary+"@"+node.Address+":9/?k="+canary),
	}
}

// faulty serves one fault for each first part of a path.
func faulty(good http.Handler) http.Handler {
	all := leaky()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		// What S3 says of an object before it's asked for is another matter.
		if f := all[strings.ReplaceAll(name, "_", " ")]; f != nil && r.Method != http.MethodHead {
			f(w, r, good)
			return
		}
		good.ServeHTTP(w, r)
	})
}

const started = "the pod started"

// harmless are failures that an S3 client gets around: it knows the size and the
// ETag of an object before it asks for its data.
var harmless = map[string]bool{"s3, 200 with a range": true, "s3, a shifted part": true, "s3, an unlabelled part": true}

func TestNoFailureShowsASecret(t *testing.T) {
	n := testutil.Node(t)
	n.Configure(t, configured, "[storage]\nmetrics_file = \""+metricsFile+"\"\n")
	if err := os.MkdirAll(filepath.Dir(metricsFile), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(filepath.Dir(metricsFile)) })
	server := n.Web(t)
	content := web.Bytes(5 << 20)
	server.Handle("", faulty(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"1"`)
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(string(content)))
	})))
	secret := node.Volume{Name: "keys", Kind: node.Secret, Files: map[string]string{
		"ACCESS_KEY_ID": canary + "-access", "SECRET_ACCESS_KEY": canary + "-key", "AWS_SESSION_TOKEN": canary + "-session",
		node.Address + "-headers": `{"X-Token": "` + canary + `-header", "Cookie": "a=` + canary + `"}`,
		"username":                canary + "-user", "password": canary + "-password",
	}}
	since := n.LogSize()
	watch := watchNode(t)
	var group errgroup.Group
	group.SetLimit(6)
	var mu sync.Mutex
	messages := map[string]string{}
	run := func(name string, ask map[string]string) {
		ask["secret"] = "keys"
		pod := n.NewPod(t, node.PodSpec{
			Handler: configured, Volumes: []node.Volume{downloadVolume(), secret}, Annotations: asks(ask),
		})
		group.Go(func() error {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			err := pod.Pod.Run(ctx)
			mu.Lock()
			defer mu.Unlock()
			messages[name] = started
			if err != nil {
				messages[name] = err.Error()
			}
			betrayed(t, "the error of "+name, messages[name])
			lookForSecrets(t, pod.LogDir(), pod.VolumeDir(volume))
			return nil
		})
	}
	query := "?sig=" + canary + "&X-Amz-Signature=" + canary + "%2F%2B" + "#" + canary
	for name := range leaky() {
		path := strings.ReplaceAll(name, " ", "_")
		run("http, "+name, map[string]string{"m.url": "http://" + server.Host() + "/" + path + "/model.bin" + query})
		run("s3, "+name, map[string]string{"m.url": "s3://" + path + "/model.bin", "s3-endpoint": server.Host(), "s3-usehttps": "0"})
	}
	run("userinfo", map[string]string{"m.url": "http://" + canary + ":" + canary + "@" + server.Host() + "/not_found/model"})
	run("TLS", map[string]string{"m.url": "https://" + server.Host() + "/model" + query})
	run("a wrong digest", map[string]string{"m.url": "http://" + server.Host() + "/model" + query, "m.digest": "sha256:" + strings.Repeat("0", 64)})
	_ = group.Wait()
	watch()
	for name, message := range messages {
		if message == started && !harmless[name] {
			t.Errorf("%s: the pod started", name)
		}
	}
	betrayed(t, "containerd's and the shims' log", n.Log(since, 1<<20))
	betrayed(t, "ps", ps(t)+ps(t, "--results")+ps(t, "--results", "-o", "json"))
	lookForSecrets(t, "/run/sedna", "/var/lib/sedna", filepath.Dir(metricsFile))
}

// watchNode looks at processes and records all the time, until it's stopped.
func watchNode(t *testing.T) (stop func()) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
			}
			all, err := node.Processes()
			if err != nil {
				t.Error(err)
			}
			for _, process := range all {
				// A process may end meanwhile, and a worker hides these.
				environ, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(process.PID), "environ"))
				betrayed(t, "arguments or environment of "+process.Args[0], process.Command()+string(environ))
			}
			lookForSecrets(t, "/run/sedna")
		}
	})
	return func() { close(done); wg.Wait() }
}

// lookForSecrets searches all regular files below folders, by name and content.
func lookForSecrets(t *testing.T, dirs ...string) {
	t.Helper()
	for _, dir := range dirs {
		_ = filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.Type().IsRegular() {
				return nil //nolint:nilerr // it has gone meanwhile
			}
			content, _ := os.ReadFile(name)
			betrayed(t, name, name+string(content))
			return nil
		})
	}
}
