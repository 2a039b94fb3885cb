// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"gvisor.dev/gvisor/pkg/shim/v1/utils"
)

const (
	ownUID   = "6f1f5e0a-own"
	otherUID = "0b7a66d2-other"
)

// world is a kubelet root with the volumes of two pods.
type world struct {
	root string
	tree string // what is in it, a line each
}

var (
	names   = []string{"a", "b", "c", "gke-gcsfuse-tmp", "absent", "gvisorinternaldevshm", "a*", ""}
	plugins = []string{emptyDirPlugin, emptyDirPlugin, emptyDirPlugin, "kubernetes.io~configmap", "kubernetes.io~csi"}
)

func pick[T any](rng *rand.Rand, list []T) T { return list[rng.IntN(len(list))] }

// maybe is true in one case of n.
func maybe(rng *rand.Rand, n int) bool { return rng.IntN(n) == 0 }

// newWorld builds random volumes below a root without symbolic links.
func newWorld(t *testing.T, rng *rand.Rand) *world {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{root: root}
	for _, uid := range []string{ownUID, otherUID} {
		w.mkdir(t, "pods", uid, "volumes")
		for _, name := range names[:4] {
			for range 1 + rng.IntN(2)*rng.IntN(2) { // seldom two of one name
				if !maybe(rng, 6) {
					w.volume(t, rng, filepath.Join("pods", uid, "volumes", pick(rng, plugins), name))
				}
			}
		}
	}
	return w
}

func (w *world) mkdir(t *testing.T, parts ...string) string {
	t.Helper()
	path := filepath.Join(parts...)
	if err := os.MkdirAll(filepath.Join(w.root, path), 0o777); err != nil {
		t.Fatal(err)
	}
	return path
}

// volume makes one volume folder, in one of the states it may be found in.
func (w *world) volume(t *testing.T, rng *rand.Rand, path string) {
	t.Helper()
	if _, err := os.Lstat(filepath.Join(w.root, path)); err == nil {
		return
	}
	if maybe(rng, 12) {
		target := w.mkdir(t, "elsewhere", strings.ReplaceAll(path, "/", "_"))
		w.mkdir(t, filepath.Dir(path))
		if err := os.Symlink(filepath.Join(w.root, target), filepath.Join(w.root, path)); err != nil {
			t.Fatal(err)
		}
		w.tree += path + " -> " + target + "\n"
		return
	}
	w.mkdir(t, path)
	w.tree += path + "/\n"
	files := pick(rng, [][]string{
		nil, nil, nil,
		{"data"},
		{filestorePrefix + "s1"},
		{filestorePrefix + "s1", filestorePrefix + "s2"},
		{filestorePrefix + "s1", "data"},
		{".hidden"},
	})
	for _, file := range files {
		if err := os.WriteFile(filepath.Join(w.root, path, file), nil, 0o666); err != nil {
			t.Fatal(err)
		}
		w.tree += path + "/" + file + "\n"
	}
}

// trial makes a random sandbox on the world, and mostly a container of it.
func (w *world) trial(rng *rand.Rand) trial {
	hints := w.hints(rng)
	sandbox := &specs.Spec{Annotations: maps.Clone(hints), Mounts: w.shm(rng, nil)}
	if !maybe(rng, 5) {
		sandbox.Annotations[utils.ContainerTypeAnnotation] = "sandbox"
	}
	c := trial{root: w.root, sandbox: sandbox, tree: w.tree, auto: maybe(rng, 4)}
	if maybe(rng, 4) {
		c.download = pick(rng, names[:4])
	}
	if maybe(rng, 3) {
		return c
	}
	c.spec = &specs.Spec{Annotations: maps.Clone(hints), Mounts: w.shm(rng, w.mounts(rng))}
	c.spec.Annotations[utils.ContainerTypeAnnotation] = "container"
	if maybe(rng, 5) { // edited on the running pod
		for key, value := range w.hints(rng) {
			if strings.HasPrefix(key, gvisorPrefix) {
				c.spec.Annotations[key] = value
			}
		}
		c.between = w.change(pick(rng, names[:4]))
	}
	return c
}

// change fills the emptyDir called name if it is empty, or empties it.
func (w *world) change(name string) func() (undo func()) {
	return func() func() {
		path := filepath.Join(w.root, "pods", ownUID, "volumes", emptyDirPlugin, name)
		aside := path + ".aside"
		if err := os.Rename(path, aside); err != nil {
			return func() {} // there is none
		}
		_ = os.Mkdir(path, 0o777)
		if empty, err := isEmpty(aside); empty && err == nil {
			_ = os.WriteFile(filepath.Join(path, "new"), nil, 0o666)
		}
		return func() {
			_ = os.RemoveAll(path)
			_ = os.Rename(aside, path)
		}
	}
}

// hints are a pod's annotations, good and bad.
func (w *world) hints(rng *rand.Rand) map[string]string {
	a := map[string]string{"unrelated": "x", hintPrefix + "nothing": "x"}
	for _, name := range names {
		if len(name) != 1 && !maybe(rng, 5) {
			continue
		}
		for field, values := range map[string][]string{
			"type":      {"tmpfs", "bind", "bind", "odd", ""},
			"share":     {"pod", "container", "shared", "odd"},
			"options":   {"rw", "ro", "rw,size=1048576"},
			"source":    {"/etc", w.root},
			"more.type": {"tmpfs", "bind"},
		} {
			if field == "type" && !maybe(rng, 3) || maybe(rng, 6) {
				a[hintKey(name, field)] = pick(rng, values)
			}
		}
		if maybe(rng, 4) {
			a[forceSharedKey(name)] = pick(rng, []string{"true", "1", "false", "", "maybe"})
		}
	}
	if maybe(rng, 6) {
		a[hostUDS] = pick(rng, []string{"", "open", "all"})
	}
	w.identity(rng, a)
	return a
}

// identity says who the pod is, in old and new ways and not at all.
func (w *world) identity(rng *rand.Rand, a map[string]string) {
	const said = "io.kubernetes.cri.sandbox-uid"
	switch rng.IntN(12) {
	case 0: // nobody says
	case 1:
		a[logDirectory] = "/var/log/pods/" + ownUID // the old layout
	case 2:
		a[said] = ownUID
	case 3:
		a[said], a[logDirectory] = ownUID, "/tmp/logs"
	case 4:
		a[said], a[logDirectory] = ownUID, "/tmp/a_b"
	case 5:
		a[logDirectory] = "/var/log/pods/a_b_c_d"
	case 6:
		a[logDirectory] = "/var/log/pods/ns_pod_gone"
	case 7, 8:
		a[logDirectory] = "/var/log/pods/ns_pod_" + ownUID
	default:
		a[said], a[logDirectory] = ownUID, "/var/log/pods/ns_pod_"+ownUID
	}
}

// mounts are those of a container.
func (w *world) mounts(rng *rand.Rand) []specs.Mount {
	var out []specs.Mount
	for i := range rng.IntN(6) {
		uid := ownUID
		if maybe(rng, 8) {
			uid = otherUID
		}
		source := filepath.Join(w.root, "pods", uid, "volumes", pick(rng, plugins), pick(rng, names[:5]))
		switch rng.IntN(12) {
		case 0:
			source = filepath.Join(w.root, "pods", uid, "volume-subpaths", pick(rng, names[:3]), "main", "0")
		case 1:
			source = "/etc"
		case 2:
			source += "/below"
		}
		out = append(out, specs.Mount{
			Destination: fmt.Sprintf("/mnt/%d", i), Source: source, Type: pick(rng, []string{"bind", "bind", "bind", "none", "tmpfs", ""}),
			Options: pick(rng, [][]string{{"rbind", "rprivate", "rw"}, {"bind", "ro"}, {"rbind", "bind", "ro", "nosuid"}, {}, nil}),
		})
	}
	return out
}

// shm adds what stands at /dev/shm.
func (w *world) shm(rng *rand.Rand, mounts []specs.Mount) []specs.Mount {
	runtime := specs.Mount{Destination: shmPath, Type: "bind", Source: "/run/sandboxes/s1/shm", Options: []string{"rbind", "ro"}}
	plain := specs.Mount{Destination: shmPath, Type: "tmpfs", Source: "shm", Options: []string{"nosuid", "noexec", "nodev", "mode=1777", "size=65536k"}}
	own := specs.Mount{
		Destination: shmPath, Type: "bind", Options: []string{"rbind", "rprivate", "rw"},
		Source: filepath.Join(w.root, "pods", ownUID, "volumes", emptyDirPlugin, pick(rng, names[:5])),
	}
	none := specs.Mount{Destination: shmPath, Type: "none", Source: "/run/sandboxes/s1/shm", Options: []string{"bind"}}
	add := pick(rng, [][]specs.Mount{{}, {runtime}, {plain}, {runtime, plain}, {plain, runtime}, {runtime, runtime}, {plain, plain, runtime}, {own}, {runtime, own}, {none}})
	out := append([]specs.Mount{}, mounts...)
	for _, m := range add {
		at := rng.IntN(len(out) + 1)
		m.Options = append([]string{}, m.Options...)
		out = append(out[:at], append([]specs.Mount{m}, out[at:]...)...)
	}
	return out
}
