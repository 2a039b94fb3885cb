// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
)

var (
	hostForm   = regexp.MustCompile(`^[a-z0-9A-Z]([a-z0-9A-Z._-]*[a-z0-9A-Z])?$`)
	prefixForm = regexp.MustCompile(`^(s3|https?)://[^/@?#\s]+(/[^@?#\x00-\x1f]*)?$`)
)

func (e Endpoint) validate(d *decoder, key string) {
	if problem := checkHost(e.Host); problem != "" {
		d.add(key+".host", "%s %s", quote(e.Host), problem)
	}
	validateNamespaces(d, key, e.Namespaces)
	for i, prefix := range e.Prefixes {
		if !prefixForm.MatchString(prefix) || strings.Contains(prefix, "/../") || strings.HasSuffix(prefix, "/..") {
			d.add(fmt.Sprintf("%s.prefixes[%d]", key, i), "%s is no prefix; write it like s3://bucket/dir/ or https://host/dir/", quote(prefix))
		}
	}
	if e.CredentialsFile != "" {
		absolute(d, key+".credentials_file", e.CredentialsFile)
	}
	if e.CAFile != "" {
		absolute(d, key+".ca_file", e.CAFile)
	}
	switch {
	case e.InsecureSkipVerify && e.CAFile != "":
		d.add(key+".insecure_skip_verify", "contradicts ca_file; with ca_file the server can be verified")
	case e.InsecureSkipVerify && e.CredentialsFile != "" && !e.Trusted:
		d.add(key+".insecure_skip_verify", "would send the node's credentials to whoever answers; use ca_file, or trusted = true for a host of the node's own network")
	}
}

// checkHost wants HOST or HOST:PORT, as it stands in a URL.
func checkHost(host string) string {
	if host == "" {
		return "is missing"
	}
	if strings.Contains(host, "://") || strings.Contains(host, "/") {
		return "is a URL; write its host and port only"
	}
	name := host
	if h, port, err := net.SplitHostPort(host); err == nil {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return "has no valid port"
		}
		name = h
	}
	if ip := net.ParseIP(strings.Trim(name, "[]")); ip != nil || hostForm.MatchString(name) {
		return ""
	}
	return "is no host"
}
