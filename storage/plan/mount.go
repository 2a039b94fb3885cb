// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"path"
	"strconv"
	"strings"
)

// mount is what the annotations of one mount say.
type mount struct {
	name      string
	urls      []string
	env       string
	writeonly bool
	dir       bool
	checkHost bool
	indirect  bool
	unpack    bool
	offline   bool
	digests   []string
	include   []string
	exclude   []string
	secret    string
	s3        S3
}

func (m *mount) key(field string) string { return mountKey(m.name, field) }

func parseMount(name string, fields map[string]string, p *Plan, pod podDefaults, found *findings) *mount {
	m := &mount{name: name, env: fields["env"], secret: fields["secret"]}
	flag := func(field string) bool {
		v, err := parseBool(fields[field])
		found.fault(m.key(field), err)
		return v
	}
	choice := func(field string, choices ...string) string {
		v, err := oneOf(fields[field], choices...)
		found.fault(m.key(field), err)
		return v
	}
	m.dir = flag("dir")
	m.checkHost = flag("check-host-path")
	m.indirect = flag("indirect")
	m.writeonly = choice("mode", "readonly", "writeonly") == "writeonly"
	m.unpack = choice("unpack", "auto", "never") == "auto"
	m.offline = choice("offline", "deny", "allow") == "allow"
	m.include = m.patterns("include", fields, found)
	m.exclude = m.patterns("exclude", fields, found)
	if m.env != "" {
		found.fault(m.key("env"), checkVariable(m.env))
	}
	if m.secret != "" {
		found.fault(m.key("secret"), checkLabel(m.secret, "a volume"))
	} else {
		m.secret = pod.secret
	}
	if m.secret != "" && m.secret == p.Volume {
		found.add(m.key("secret"), "a Secret needs a volume of its own", "the volume %s receives the downloads", show(m.secret))
	}
	m.s3 = parseService(fields, m.key(""), found).over(pod.service)
	m.urls = splitList(fields["url"])
	m.digests = m.parseDigests(fields["digest"], found)
	return m
}

func (m *mount) patterns(field string, fields map[string]string, found *findings) []string {
	patterns, err := parsePatterns(fields[field])
	found.fault(m.key(field), err)
	return patterns
}

// parseDigests gives one digest, or "", for each URL.
func (m *mount) parseDigests(value string, found *findings) []string {
	digests := splitList(value)
	if digests == nil {
		return make([]string, len(m.urls))
	}
	if len(digests) != len(m.urls) {
		found.add(m.key("digest"), "separate them by ; and leave a part empty for a URL without", "%d digests for %d URLs", len(digests), len(m.urls))
		return make([]string, len(m.urls))
	}
	for i, text := range digests {
		if text == "" {
			continue
		}
		digest, err := parseDigest(text)
		found.fault(m.key("digest"), err)
		digests[i] = digest
	}
	return digests
}

// item is what one URL of a mount turns into.
type item struct {
	download *Download
	hostPath *HostPath
	value    Value
	dropped  bool // by check-host-path
}

// item says what becomes of the URL in one place of the mount's list.
func (m *mount) item(i int) (item, *fault) {
	raw := m.urls[i]
	if raw == "" {
		return item{}, faultf("remove the ; or write the URL", "URL %d of %d is empty", i+1, len(m.urls))
	}
	scheme, rest := cutScheme(raw)
	it, err := m.anyItem(scheme, rest, raw, m.digests[i])
	switch {
	case err != nil:
		return item{}, err
	case scheme != "" && m.checkHost:
		return item{dropped: true}, nil
	case it.download == nil && m.digests[i] != "":
		return item{}, faultf("", "a digest is given for URL %d, which isn't downloaded", i+1)
	}
	return it, nil
}

func (m *mount) anyItem(scheme, rest, raw, digest string) (item, *fault) {
	switch scheme {
	case "":
		return m.hostItem(raw)
	case "file":
		return fileItem(rest)
	}
	u, err := parseURL(raw)
	if err != nil {
		return item{}, err
	}
	if m.writeonly {
		return item{value: Value{Literal: NewSecret(raw)}}, nil
	}
	return m.downloadItem(u, digest)
}

func (m *mount) downloadItem(u URL, digest string) (item, *fault) {
	d := &Download{
		Mounts: []string{m.name}, URL: u, Digest: digest, Indirect: m.indirect,
		Include: m.include, Exclude: m.exclude, Secret: m.secret, Offline: m.offline,
	}
	if u.Scheme == "s3" {
		d.S3 = m.s3
		d.Dir = m.dir || u.Path == "" || strings.HasSuffix(u.Path, "/")
	}
	if d.Dir && m.indirect {
		return item{}, faultf("name the index file", "%s is a folder and can't be an index file", quoteURL(u))
	}
	if d.Dir && digest != "" {
		return item{}, faultf("a digest is that of one file", "%s is a folder and has no digest", quoteURL(u))
	}
	if m.unpack && !d.Dir && !m.indirect {
		d.Archive = ArchiveOf(u.Path)
	}
	d.Path = path.Join(u.Host, u.Path)
	if d.Archive != NoArchive {
		d.Path = path.Dir(d.Path)
	}
	if m.env != "" && strings.Contains(d.Path, ";") {
		return item{}, faultf("leave `env` out", "the path of %s has a ; in it, which separates the paths of the variable", quoteURL(u))
	}
	return item{download: d, value: Value{Download: d.Path}}, nil
}

func (m *mount) hostItem(raw string) (item, *fault) {
	file, err := parseHostPath(raw, len(m.urls) > 1)
	if err != nil {
		return item{}, err
	}
	source, files := file, []string(nil)
	if !m.dir && !strings.HasSuffix(raw, "/") {
		source = path.Dir(file)
		if !m.writeonly {
			files = []string{path.Base(file)}
		}
	}
	if source == "/" {
		return item{}, faultf("name a folder below it", "the node's root folder can't be mounted, which %s asks for", show(raw))
	}
	h := &HostPath{
		Mounts: []string{m.name}, Source: source, Destination: HostPathRoot + source, Writable: m.writeonly, Files: files,
	}
	return item{hostPath: h, value: Value{Literal: NewSecret(HostPathRoot + file)}}, nil
}

// parseHostPath checks a path of the node, which is literal: it is no URL. A
// value that is one part of several isn't repeated in an error, for it may be
// the rest of a URL with a secret in it.
func parseHostPath(raw string, part bool) (string, *fault) {
	switch {
	case strings.Contains(raw, "://"):
		return "", faultf(knownSchemes, "the URL has no scheme before ://")
	case !strings.HasPrefix(raw, "/"):
		shown := "one of the values"
		if !part && plainWord.matches(raw) {
			shown = strconv.Quote(raw)
		}
		return "", faultf("write an absolute path of the node, or s3://, https://...; a ; inside a URL is written %3B", "%s is neither a URL nor an absolute path", shown)
	case strings.ContainsAny(raw, "?#"):
		return "", faultf("", "a path of the node has no ? or #")
	}
	for segment := range strings.SplitSeq(raw, "/") {
		if segment == ".." {
			return "", faultf("", "%s has .. in it", show(raw))
		}
		if err := checkSegment(segment); err != nil {
			return "", faultf(err.hint, "%s %s", show(raw), err.problem)
		}
	}
	clean := path.Clean(raw)
	return clean, checkLength(clean)
}

// fileItem is a path in the workload's own container: nothing is mounted.
func fileItem(rest string) (item, *fault) {
	const hint = "write file:///path for a file of the container"
	p, ok := strings.CutPrefix(rest, "//")
	if !ok {
		p = rest
	}
	p, _, _ = strings.Cut(p, "#")
	p, _, _ = strings.Cut(p, "?")
	if !strings.HasPrefix(p, "/") {
		return item{}, faultf(hint, "a file:// URL has no host, only an absolute path")
	}
	decoded, err := unescape(p)
	if err != nil {
		return item{}, err
	}
	clean, fault := cleanPath(strings.TrimSuffix(decoded, "/"))
	if fault != nil {
		return item{}, faultf(hint, "the file:// URL %s", fault.problem)
	}
	return item{value: Value{Literal: NewSecret(clean)}}, nil
}
