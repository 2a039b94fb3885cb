// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"unicode"
)

// nameForm is what a name may be and how long. The length isn't in the
// expression, for a counted repetition compiles to as many states, and there
// is a shim for every pod of a node.
type nameForm struct {
	form *regexp.Regexp
	most int
}

func (n nameForm) matches(name string) bool {
	return len(name) <= n.most && n.form.MatchString(name)
}

var (
	// label is a DNS label, RFC 1123, as Kubernetes names volumes and containers.
	label = nameForm{regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`), 63}
	// bucketName is what S3 services accept, and never a path: no slash, not
	// beginning with a dot.
	bucketName   = nameForm{regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`), 255}
	regionName   = nameForm{regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]*$`), 64}
	variableName = nameForm{regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`), 256}
	// plainWord and plainQuery look like no secret.
	plainWord  = nameForm{regexp.MustCompile(`^[A-Za-z0-9._/*-]+$`), 80}
	plainQuery = nameForm{regexp.MustCompile(`^[A-Za-z0-9._-]+$`), 40}
)

// goodHost accepts HOST or HOST:PORT that is also a good folder name, for the
// download lands below it. Names may be unicode; an IPv6 address has brackets.
func goodHost(host string) bool {
	name := host
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
		port, err := strconv.ParseUint(host[i+1:], 10, 16)
		if err != nil || port == 0 {
			return false
		}
		name = host[:i]
	}
	if inner, ok := strings.CutPrefix(name, "["); ok {
		inner, ok = strings.CutSuffix(inner, "]")
		ip, err := netip.ParseAddr(inner)
		return ok && err == nil && ip.Is6() && ip.Zone() == ""
	}
	return name != "" && len(host) <= maxSegment && !strings.HasPrefix(name, ".") && !strings.HasPrefix(name, "-") &&
		!strings.Contains(name, "..") && !strings.ContainsFunc(name, notInHost)
}

func notInHost(r rune) bool {
	return !unicode.In(r, unicode.L, unicode.N, unicode.M) && !strings.ContainsRune("._-", r)
}
