// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
)

var labelForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)

// isLabel says whether a name is a DNS label, RFC 1123, as Kubernetes names
// containers and namespaces.
func isLabel(name string) bool { return len(name) <= 63 && labelForm.MatchString(name) }

// validate notes values that are well formed and can't be meant.
func (c *Config) validate(d *decoder) {
	c.validateGVisor(d)
	c.validateShim(d)
	oneOf(d, "volumes.empty_dir", c.Volumes.EmptyDir, "annotated", "auto")
	c.validateStorage(d)
	c.validateCache(d)
	for i, h := range c.HostPaths {
		c.validateHostPath(d, fmt.Sprintf("host_path[%d]", i), h)
	}
	c.validateNesting(d)
	hosts := map[string]bool{}
	for i, e := range c.Endpoints {
		key := fmt.Sprintf("endpoint[%d]", i)
		e.validate(d, key)
		if hosts[strings.ToLower(e.Host)] {
			d.add(key+".host", "%s has an [[endpoint]] already; put both into one", quote(e.Host))
		}
		hosts[strings.ToLower(e.Host)] = true
	}
}

func (c *Config) validateGVisor(d *decoder) {
	if c.LogLevel != "" {
		oneOf(d, "log_level", c.LogLevel, "trace", "debug", "info", "warn", "warning", "error", "fatal", "panic")
	}
	if c.Root != "" {
		absolute(d, "root", c.Root)
	}
}

func (c *Config) validateShim(d *decoder) {
	s := c.Shim
	if absolute(d, "shim.kubelet_root", s.KubeletRoot) && path.Clean(s.KubeletRoot) == "/" {
		d.add("shim.kubelet_root", "/ is no folder of the kubelet's")
	}
	if s.DeadlineMargin <= 0 || s.DeadlineMargin > Duration(2*time.Minute) {
		d.add("shim.deadline_margin", "%q is not above 0 and up to 2m; the kubelet waits 4 minutes", s.DeadlineMargin.String())
	}
	for i, pattern := range s.GVisorAnnotations {
		if problem := checkAnnotation(pattern); problem != "" {
			d.add(fmt.Sprintf("shim.gvisor_annotations[%d]", i), "%s %s", quote(pattern), problem)
		}
	}
	for i, name := range s.SkipContainers {
		if !isLabel(name) {
			d.add(fmt.Sprintf("shim.skip_containers[%d]", i), "%s is no container's name", quote(name))
		}
	}
}

func (c *Config) validateStorage(d *decoder) {
	s := c.Storage
	if s.Worker == "" || strings.Contains(s.Worker, "/") && !path.IsAbs(s.Worker) {
		d.add("storage.worker", "%s is neither a program's name nor an absolute path", quote(s.Worker))
	}
	oneOf(d, "storage.network", s.Network, "pod", "host")
	between(d, "storage.max_files", s.MaxFiles, 1, 1<<40)
	between(d, "storage.max_workers", int64(s.MaxWorkers), 1, 1024)
	between(d, "storage.concurrency", int64(s.Concurrency), 1, 1024)
	if s.StallTimeout <= 0 {
		d.add("storage.stall_timeout", "%q is not above 0", s.StallTimeout.String())
	}
	if s.Limits.Memory < 32<<20 {
		d.add("storage.limits.memory", "%s is less than the 32MiB that a worker needs", s.Limits.Memory)
	}
	if s.Limits.CPU < 10 {
		d.add("storage.limits.cpu", "%s is less than 10m", s.Limits.CPU)
	}
	if s.CAFile != "" {
		absolute(d, "storage.ca_file", s.CAFile)
	}
	if s.Proxy != "" {
		validateProxy(d, s.Proxy)
	}
	validateNoProxy(d, s.NoProxy)
	if s.MetricsFile != "" {
		validateMetricsFile(d, s.MetricsFile)
	}
	validateCIDRs(d, "storage.deny_cidrs", s.DenyCIDRs)
	validateCIDRs(d, "storage.allow_cidrs", s.AllowCIDRs)
}

// validateProxy never shows the value: it may have a password.
func validateProxy(d *decoder, proxy string) {
	u, err := url.Parse(proxy)
	switch {
	case err != nil || u.Host == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "":
		d.add("storage.proxy", "the proxy is no URL; write it like http://proxy:3128")
	case !slices.Contains([]string{"http", "https", "socks5"}, u.Scheme):
		d.add("storage.proxy", "the proxy's scheme is none of http, https and socks5")
	}
}

// validateNoProxy wants one host, .domain, address or network for each entry.
func validateNoProxy(d *decoder, hosts []string) {
	for i, host := range hosts {
		at := fmt.Sprintf("storage.no_proxy[%d]", i)
		_, err := netip.ParsePrefix(host)
		switch {
		case host == "" || strings.ContainsAny(host, ", \t\n"):
			d.add(at, "%s is no host; write each as an entry of its own, like .svc, 10.0.0.0/8 or minio.local:9000", quote(host))
		case strings.Contains(host, "/") && err != nil:
			d.add(at, "%s is neither a host nor a network; write it like minio.local or 10.0.0.0/8", quote(host))
		}
	}
}

// validateMetricsFile wants a name that is read: node_exporter's textfile
// collector takes *.prom only.
func validateMetricsFile(d *decoder, file string) {
	if absolute(d, "storage.metrics_file", file) && !strings.HasSuffix(file, ".prom") {
		d.add("storage.metrics_file", "%s doesn't end in .prom, and node_exporter reads no other file", quote(file))
	}
}

func validateCIDRs(d *decoder, key string, cidrs []string) {
	for i, text := range cidrs {
		at := fmt.Sprintf("%s[%d]", key, i)
		prefix, err := netip.ParsePrefix(text)
		switch {
		case err != nil:
			d.add(at, "%s is no network; write it like 10.0.0.0/8, or 10.1.2.3/32 for one address", quote(text))
		case prefix != prefix.Masked():
			d.add(at, "%s has bits beyond its mask; write %s", quote(text), prefix.Masked())
		}
	}
}

func (c *Config) validateCache(d *decoder) {
	oneOf(d, "cache.mode", c.Cache.Mode, "link", "copy", "off")
	if c.Cache.Mode == "off" {
		return
	}
	if absolute(d, "cache.path", c.Cache.Path) {
		if where := touches(c.Cache.Path, []string{"/", "/proc", "/sys", "/etc", "/usr", c.Shim.KubeletRoot}, false); where != "" {
			d.add("cache.path", "%s is no folder of its own: it is at or below %s", quote(c.Cache.Path), where)
		}
	}
	if c.Cache.MaxSize <= 0 {
		d.add("cache.max_size", `%s is no size for a cache; write [cache] mode = "off" for none`, c.Cache.MaxSize)
	}
}

func oneOf(d *decoder, key, value string, choices ...string) {
	if !slices.Contains(choices, value) {
		d.add(key, "%s is none of %s", quote(value), strings.Join(choices, ", "))
	}
}

func between(d *decoder, key string, value, low, high int64) {
	if value < low || value > high {
		d.add(key, "%d is not from %d to %d", value, low, high)
	}
}

func absolute(d *decoder, key, p string) bool {
	if !path.IsAbs(p) || slices.Contains(strings.Split(p, "/"), "..") || strings.Contains(p, "\x00") {
		d.add(key, "%s is no absolute path without ..", quote(p))
		return false
	}
	return true
}
