// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// vectorFiles gives the recorded cases: the copy in testdata, and the folder
// beside the repository where there is one.
func vectorFiles(t *testing.T, name string) []string {
	t.Helper()
	files := []string{filepath.Join("testdata", name)}
	beside := filepath.Join("..", "..", "..", "shared", "vectors", name)
	if _, err := os.Stat(beside); err == nil {
		files = append(files, beside)
	}
	return files
}

func readVectors[T any](t *testing.T, file string) []T {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var cases []T
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases) == 0 {
		t.Fatalf("%s has no cases", file)
	}
	return cases
}

type vectorURL struct {
	URL           string `json:"url"`
	Mode          string `json:"mode"`
	Dir           bool   `json:"dir"`
	CheckHostPath bool   `json:"checkHostPath"`
}

type vectorMountURL struct {
	In             vectorURL `json:"in"`
	Disabled       bool      `json:"disabled"`
	ContainerPath  string    `json:"containerPath"`
	MountPath      string    `json:"mountPath"`
	DownloadSource string    `json:"downloadSource"`
	DownloadDir    string    `json:"downloadDir"`
	HostPath       string    `json:"hostPath"`
	Deviates       string    `json:"deviates"`
}

func TestEachURLLandsWhereSednaPutsIt(t *testing.T) {
	for _, file := range vectorFiles(t, "mounturl.json") {
		for _, c := range readVectors[vectorMountURL](t, file) {
			name := fmt.Sprintf("%s_%+v", filepath.Dir(file), c.In)
			t.Run(name, func(t *testing.T) { checkVectorURL(t, c) })
		}
	}
}

func checkVectorURL(t *testing.T, c vectorMountURL) {
	p, err := Parse(mountAnnotations("m", "V", []vectorURL{c.In}))
	if err != nil {
		t.Fatal(err)
	}
	if c.Disabled {
		if p.Asks() {
			t.Fatalf("a URL dropped by check-host-path still asks for something: %+v", p)
		}
		return
	}
	mountPath := path.Clean(c.MountPath)
	if c.Deviates != "" { // a final slash means a folder, spec 3
		mountPath = c.ContainerPath
	}
	if got := p.Variables[0].Value(DefaultMountPath); got != c.ContainerPath {
		t.Errorf("the variable is %q, want %q", got, c.ContainerPath)
	}
	if c.HostPath != "" {
		h := p.HostPaths[0]
		if h.Source != path.Clean(c.HostPath) || h.Destination != mountPath {
			t.Errorf("mounts %s at %s, want %s at %s", h.Source, h.Destination, path.Clean(c.HostPath), mountPath)
		}
		return
	}
	d := p.Downloads[0]
	dir := path.Dir(path.Join(DefaultMountPath, d.Path))
	if d.URL.Reveal() != c.DownloadSource || dir != path.Clean(c.DownloadDir) {
		t.Errorf("fetches %q into %s, want %q into %s", d.URL.Reveal(), dir, c.DownloadSource, c.DownloadDir)
	}
}

type vectorPod struct {
	Mounts []struct {
		Name string      `json:"name"`
		Env  string      `json:"env"`
		URLs []vectorURL `json:"urls"`
	} `json:"mounts"`
	Env        map[string]string `json:"env"`
	Downloads  [][2]string       `json:"downloads"`
	HostPaths  []string          `json:"hostPaths"`
	MountPaths []string          `json:"mountPaths"`
}

func TestWholePodsGetWhatSednaGivesThem(t *testing.T) {
	for _, file := range vectorFiles(t, "pods.json") {
		for i, c := range readVectors[vectorPod](t, file) {
			t.Run(fmt.Sprintf("%s_%d", filepath.Dir(file), i), func(t *testing.T) { checkVectorPod(t, c) })
		}
	}
}

func checkVectorPod(t *testing.T, c vectorPod) {
	annotations := map[string]string{}
	for _, m := range c.Mounts {
		for k, v := range mountAnnotations(m.Name, m.Env, m.URLs) {
			annotations[k] = v
		}
	}
	p, err := Parse(annotations)
	if err != nil {
		t.Fatal(err)
	}
	env := map[string]string{}
	for _, v := range p.Variables {
		env[v.Name] = v.Value(DefaultMountPath)
	}
	if fmt.Sprint(env) != fmt.Sprint(c.Env) {
		t.Errorf("variables %v, want %v", env, c.Env)
	}
	var downloads, sources, mounts []string
	for _, d := range p.Downloads {
		downloads = append(downloads, d.URL.Reveal()+" "+path.Dir(path.Join(DefaultMountPath, d.Path)))
	}
	for _, h := range p.HostPaths {
		sources = append(sources, h.Source)
		mounts = append(mounts, h.Destination)
	}
	if p.Downloads != nil {
		mounts = append(mounts, p.MountPath+" ro")
	}
	var wantDownloads []string
	for _, d := range c.Downloads {
		wantDownloads = append(wantDownloads, d[0]+" "+path.Clean(d[1]))
	}
	sameSet(t, "downloads", downloads, wantDownloads)
	sameSet(t, "host paths", sources, cleaned(c.HostPaths))
	sameSet(t, "mounts", mounts, cleaned(c.MountPaths))
}

func cleaned(paths []string) []string {
	var out []string
	for _, p := range paths {
		p, ro, _ := strings.Cut(p, " ")
		out = append(out, strings.TrimSpace(path.Clean(p)+" "+ro))
	}
	return out
}

func sameSet(t *testing.T, what string, got, want []string) {
	t.Helper()
	slices.Sort(got)
	slices.Sort(want)
	got, want = slices.Compact(got), slices.Compact(want)
	if !slices.Equal(got, want) {
		t.Errorf("%s are %q, want %q", what, got, want)
	}
}

// mountAnnotations writes a mount as a pod's author would.
func mountAnnotations(name, env string, urls []vectorURL) map[string]string {
	a := map[string]string{}
	var list []string
	for _, u := range urls {
		list = append(list, u.URL)
		if u.Mode != "" {
			a[mountKey(name, "mode")] = u.Mode
		}
		if u.Dir {
			a[mountKey(name, "dir")] = "true"
		}
		if u.CheckHostPath {
			a[mountKey(name, "check-host-path")] = "true"
		}
	}
	a[mountKey(name, "url")] = strings.Join(list, ";")
	if env != "" {
		a[mountKey(name, "env")] = env
	}
	return a
}
