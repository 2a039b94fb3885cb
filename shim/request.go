// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"

	"github.com/sedna-io/containerd-shim-sedna/internal/config"
	"github.com/sedna-io/containerd-shim-sedna/internal/version"
	"github.com/sedna-io/containerd-shim-sedna/storage/plan"
	"github.com/sedna-io/containerd-shim-sedna/storage/worker"
)

// early is how long after the start of a pod its network may not be announced
// yet, so that a refusal says nothing.
const early = 20 * time.Second

// request writes down everything that the worker needs for downloads into dir.
func (p *sandbox) request(dir string) (worker.Request, error) {
	s := p.cfg.Storage
	req := worker.Request{
		Version:  version.Version,
		Pod:      workerPod(p.pod),
		Dir:      dir,
		Writable: p.plan.Writable,
		Limits: worker.Limits{
			MaxBytes: lesser(p.plan.MaxBytes, int64(s.MaxBytes)), MaxFiles: s.MaxFiles,
			MinFreeBytes: s.MinFree.Bytes, MinFreePercent: s.MinFree.Percent,
			MinFreeInodes: s.MinFreeInodes.Bytes, MinFreeInodesPercent: s.MinFreeInodes.Percent,
			Concurrency: s.Concurrency, StallTimeout: time.Duration(s.StallTimeout), Bandwidth: int64(s.Bandwidth),
			Memory: int64(s.Limits.Memory), CPU: int64(s.Limits.CPU),
		},
		Network: worker.Network{
			Host: p.onNodeNetwork(), Deny: s.DenyCIDRs, Allow: s.AllowCIDRs, Proxy: s.Proxy, NoProxy: s.NoProxy,
		},
	}
	if !req.Network.Host {
		req.Network.Early = early
	}
	var err error
	if req.Network.CABundle, err = readNodeFile(s.CAFile, "[storage] ca_file"); err != nil {
		return worker.Request{}, err
	}
	secrets := secrets{sandbox: p, read: map[string]map[string][]byte{}}
	for _, d := range p.plan.Downloads {
		c, err := secrets.of(d)
		if err != nil {
			return worker.Request{}, fmt.Errorf("credentials of mount %q for %s: %w", d.Mounts[0], d.URL, err)
		}
		req.Items = append(req.Items, worker.Item{Download: d, Credentials: c})
	}
	return req, nil
}

// lesser returns the smaller limit; 0 is none.
func lesser(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// secrets finds the credentials of downloads, and reads each volume once.
type secrets struct {
	*sandbox
	read map[string]map[string][]byte
}

// of returns the credentials for d: of the pod's volume that it names, else of
// the node's [[endpoint]], else none.
func (s *secrets) of(d plan.Download) (plan.Credentials, error) {
	var c plan.Credentials
	if d.Secret != "" {
		files, err := s.files(d.Secret)
		if err != nil {
			return plan.Credentials{}, err
		}
		if c, err = plan.ParseCredentials(files, d.URL.Host); err != nil {
			return plan.Credentials{}, fmt.Errorf("the pod's volume %q: %w", d.Secret, err)
		}
		c.From = fmt.Sprintf("the pod's volume %q", d.Secret)
	}
	host, insecure, err := d.Endpoint(c)
	if err != nil {
		return plan.Credentials{}, err
	}
	for _, e := range s.cfg.Endpoints {
		if strings.EqualFold(e.Host, host) {
			return s.endpoint(e, d, c, insecure)
		}
	}
	return c, nil
}

// files returns the files of one of the pod's volumes.
func (s *secrets) files(volume string) (map[string][]byte, error) {
	if files, ok := s.read[volume]; ok {
		return files, nil
	}
	s.touch.now("the pod's volume %q", volume)
	files, err := s.volumes.Secret(volume)
	if err != nil {
		return nil, fmt.Errorf("annotation %ssecret: %w", annotationPrefix, err)
	}
	if err := plan.CheckNames(files); err != nil {
		return nil, fmt.Errorf("annotation %ssecret: volume %q: %w", annotationPrefix, volume, err)
	}
	s.read[volume] = files
	return files, nil
}

// endpoint adds what the node says about a host: its trust for every pod, its
// keys for those that it names and that bring none of their own.
func (s *secrets) endpoint(e config.Endpoint, d plan.Download, c plan.Credentials, insecure bool) (plan.Credentials, error) {
	own := d.Secret != ""
	if len(c.CABundle) == 0 {
		ca, err := readNodeFile(e.CAFile, fmt.Sprintf("ca_file of [[endpoint]] %q", e.Host))
		if err != nil {
			return plan.Credentials{}, err
		}
		c.CABundle = ca
		c.SkipVerify = e.InsecureSkipVerify
	}
	if own || e.CredentialsFile == "" {
		return c, nil
	}
	if !entitled(e, s.pod.Namespace, d.URL) {
		s.log.Infof("the node's keys for %s are not for namespace %q and %s ([[endpoint]] namespaces, prefixes): the download is anonymous", e.Host, s.pod.Namespace, d.URL)
		return c, nil
	}
	if !s.onNodeNames() && (insecure || e.InsecureSkipVerify) {
		return plan.Credentials{}, fmt.Errorf("the node's keys for %s go through a pod's network, or to where its name servers say, only over verified TLS: use https there, set [storage] network = \"host\" (which is no help to a hostNetwork pod), or name a secret of the pod: %w",
			e.Host, errdefs.ErrPermissionDenied)
	}
	data, err := readNodeFile(e.CredentialsFile, fmt.Sprintf("credentials_file of [[endpoint]] %q", e.Host))
	if err != nil {
		return plan.Credentials{}, err
	}
	files, err := plan.ParseEnvFile(data)
	if err != nil {
		return plan.Credentials{}, fmt.Errorf("%s: %w", e.CredentialsFile, err)
	}
	node, err := plan.ParseCredentials(files, d.URL.Host)
	if err != nil {
		return plan.Credentials{}, fmt.Errorf("%s: %w", e.CredentialsFile, err)
	}
	// The host was matched by what the pod says: nothing in the file may move it.
	node.Endpoint, node.Insecure = "", nil
	node.From = fmt.Sprintf("the node's [[endpoint]] %q", e.Host)
	node.CABundle, node.SkipVerify, node.Prefixes = c.CABundle, c.SkipVerify, e.Prefixes
	return node, nil
}

// entitled says whether a namespace may use an endpoint's credentials for u.
func entitled(e config.Endpoint, namespace string, u plan.URL) bool {
	return (slices.Contains(e.Namespaces, "*") || slices.Contains(e.Namespaces, namespace)) &&
		slices.ContainsFunc(e.Prefixes, u.Under)
}

// readNodeFile reads a file that the node's configuration names as what; no
// name is no file.
func readNodeFile(path, what string) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return data, nil
}
