// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"net/url"
	"path"
	"slices"
	"strings"
)

// builder puts the mounts of a pod together: what several ask for is fetched
// and mounted once.
type builder struct {
	plan      *Plan
	found     *findings
	urls      int
	downloads map[string]*Download
	hostPaths map[string]*HostPath
	variables map[string]string // variable -> mount
}

func (b *builder) addMount(m *mount) {
	if b.downloads == nil {
		b.downloads, b.hostPaths, b.variables = map[string]*Download{}, map[string]*HostPath{}, map[string]string{}
	}
	if len(m.urls) == 0 {
		b.found.add(m.key("url"), "", "the mount %q has no URL", m.name)
		return
	}
	if b.urls += len(m.urls); b.urls > MaxURLs {
		b.found.add(m.key("url"), "name a folder, or an index file with `indirect`", "the pod has more than %d URLs", MaxURLs)
		return
	}
	items := b.items(m)
	b.addVariable(m, items)
}

// items parses the URLs of a mount and reports each that can't be used.
func (b *builder) items(m *mount) []item {
	var items []item
	selectable, downloads := false, 0
	for i := range m.urls {
		it, err := m.item(i)
		if err != nil {
			b.found.fault(m.key("url"), err)
			continue
		}
		if d := it.download; d != nil {
			downloads++
			selectable = selectable || d.Archive != NoArchive || d.Indirect || d.URL.Scheme == "s3"
			b.addDownload(m, d)
		}
		if it.hostPath != nil {
			b.addHostPath(it.hostPath)
		}
		if it.dropped {
			selectable = true
		} else {
			items = append(items, it)
		}
	}
	if len(items) == len(m.urls) {
		b.checkUse(m, downloads, selectable)
	}
	return items
}

// checkUse refuses options that would do nothing.
func (b *builder) checkUse(m *mount, downloads int, selectable bool) {
	if !selectable {
		const why = "no URL of the mount names a folder, an archive or an index file to choose from"
		if m.include != nil {
			b.found.add(m.key("include"), "", why)
		}
		if m.exclude != nil {
			b.found.add(m.key("exclude"), "", why)
		}
	}
	if m.indirect && downloads == 0 {
		b.found.add(m.key("indirect"), "", "no URL of the mount is downloaded")
	}
}

// addDownload merges a download with the same one of another mount, or refuses
// two that mean the same place and differ.
func (b *builder) addDownload(m *mount, d *Download) {
	key := identity(d)
	old, ok := b.downloads[key]
	if !ok {
		b.downloads[key] = d
		return
	}
	if difference := old.differs(d); difference != "" {
		b.found.add(m.key("url"), "give both the same options", "%s is asked for by the mounts %q and %q with different %s", quoteURL(d.URL), old.Mounts[0], m.name, difference)
		return
	}
	if old.Digest == "" {
		old.Digest = d.Digest
	}
	if !slices.Contains(old.Mounts, m.name) {
		old.Mounts = append(old.Mounts, m.name)
	}
}

// identity is the same for URLs that name the same content in the same place.
func identity(d *Download) string {
	u := d.URL
	if u.Scheme == "s3" {
		return "s3://" + u.Host + "/" + strings.TrimSuffix(u.Path, "/") + " " + d.Path
	}
	_, rest := cutScheme(u.raw)
	rest, _, _ = strings.Cut(rest, "#")
	return u.Scheme + ":" + rest + " " + d.Path
}

// differs names the first option in which two downloads of one URL differ.
func (d *Download) differs(other *Download) string {
	switch {
	case d.Dir != other.Dir:
		return "`dir`"
	case d.Archive != other.Archive:
		return "`unpack`"
	case d.Indirect != other.Indirect:
		return "`indirect`"
	case d.Digest != "" && other.Digest != "" && d.Digest != other.Digest:
		return "`digest`"
	case !slices.Equal(d.Include, other.Include):
		return "`include`"
	case !slices.Equal(d.Exclude, other.Exclude):
		return "`exclude`"
	case d.Secret != other.Secret:
		return "`secret`"
	case !d.S3.equal(other.S3):
		return "s3 options"
	case d.Offline != other.Offline:
		return "`offline`"
	}
	return ""
}

func (s S3) equal(other S3) bool {
	if (s.Insecure == nil) != (other.Insecure == nil) {
		return false
	}
	if s.Insecure != nil && *s.Insecure != *other.Insecure {
		return false
	}
	s.Insecure, other.Insecure = nil, nil
	return s == other
}

func (b *builder) addHostPath(h *HostPath) {
	old, ok := b.hostPaths[h.Source]
	if !ok {
		b.hostPaths[h.Source] = h
		return
	}
	old.Writable = old.Writable || h.Writable
	for _, file := range h.Files {
		if i, there := slices.BinarySearch(old.Files, file); !there {
			old.Files = slices.Insert(old.Files, i, file)
		}
	}
	if !slices.Contains(old.Mounts, h.Mounts[0]) {
		old.Mounts = append(old.Mounts, h.Mounts[0])
	}
}

func (b *builder) addVariable(m *mount, items []item) {
	if m.env == "" || len(items) == 0 {
		return
	}
	if other, taken := b.variables[m.env]; taken {
		b.found.add(m.key("env"), "", "the variable %s is set by the mount %q already", clip(m.env, 60), other)
		return
	}
	b.variables[m.env] = m.name
	v := Variable{Name: m.env, Mount: m.name}
	for _, it := range items {
		v.Values = append(v.Values, it.value)
	}
	if n := len(v.Name) + len("=\x00") + len(v.Value(b.plan.MountPath)); n > maxVariable {
		b.found.add(m.key("env"), "", "the variable %s would have %d bytes, more than the %d that Linux allows", clip(m.env, 60), n, maxVariable)
	}
	b.plan.Variables = append(b.plan.Variables, v)
}

// finish sorts what was gathered and looks for conflicts.
func (b *builder) finish() {
	p := b.plan
	for _, d := range b.downloads {
		p.Downloads = append(p.Downloads, *d)
	}
	slices.SortFunc(p.Downloads, func(x, y Download) int {
		if c := strings.Compare(x.Path, y.Path); c != 0 {
			return c
		}
		return strings.Compare(identity(&x), identity(&y))
	})
	for _, h := range b.hostPaths {
		p.HostPaths = append(p.HostPaths, *h)
	}
	slices.SortFunc(p.HostPaths, func(x, y HostPath) int { return strings.Compare(x.Destination, y.Destination) })
	slices.SortFunc(p.Variables, func(x, y Variable) int { return strings.Compare(x.Name, y.Name) })
	nameVolumes(p.HostPaths)
	findConflicts(p.Downloads, b.found)
}

func cleanAbsolute(p string) string { return path.Clean("/" + p) }

func unescape(p string) (string, *fault) {
	decoded, err := url.PathUnescape(p)
	if err != nil {
		return "", faultf("", "a %% isn't followed by two hex digits")
	}
	return decoded, nil
}
