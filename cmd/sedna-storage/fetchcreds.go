// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/sedna-io/containerd-shim-sedna/storage/plan"
	"github.com/sedna-io/containerd-shim-sedna/storage/worker"
)

var digestForm = regexp.MustCompile(`^sha256:[0-9a-fA-F]{64}$`)

// limits checks what has a form of its own.
func (o *fetchOptions) limits(req *worker.Request) error {
	for _, d := range o.digests {
		if !digestForm.MatchString(d) {
			return errors.New("--digest is sha256: and 64 hex digits")
		}
	}
	if o.bandwidth == "" {
		return nil
	}
	n, err := humanize.ParseBytes(o.bandwidth)
	if err != nil || n == 0 || n > 1<<50 {
		return errors.New("--bandwidth is bytes per second, like 500kB or 20MiB")
	}
	req.Limits.Bandwidth = int64(n)
	return nil
}

// credentials are those for a URL's host, from --secret-dir or else from the
// environment.
func (o *fetchOptions) credentials(u plan.URL) (plan.Credentials, error) {
	files, from := environment(u), "the environment"
	if o.secretDir != "" {
		var err error
		if files, err = secretDir(o.secretDir); err != nil {
			return plan.Credentials{}, err
		}
		from = fmt.Sprintf("the folder %q", o.secretDir)
		if err := plan.CheckNames(files); err != nil {
			return plan.Credentials{}, fmt.Errorf("credentials of %s: %w", from, err)
		}
	}
	c, err := plan.ParseCredentials(files, u.Host)
	if err != nil {
		return plan.Credentials{}, fmt.Errorf("credentials of %s: %w", from, err)
	}
	c.From = from
	return c, nil
}

// environment has the variables with the names of credentials. A token that
// tools of Hugging Face share is for Hugging Face: who fetches from elsewhere
// with it set doesn't mean to send it there.
func environment(u plan.URL) map[string][]byte {
	files := map[string][]byte{}
	names := append(plan.CredentialNames(), u.Host+"-headers", strings.ToLower(u.Host)+"-headers")
	for _, name := range names {
		if v := os.Getenv(name); v != "" {
			files[name] = []byte(v)
		}
	}
	if !isHuggingFace(u) {
		delete(files, "HF_TOKEN")
	}
	return files
}

func isHuggingFace(u plan.URL) bool {
	host := strings.ToLower(u.Host)
	return u.Scheme == "https" && (host == "huggingface.co" || strings.HasSuffix(host, ".huggingface.co") || host == "hf.co")
}

// maxSecret is the largest file of a secret, as Kubernetes has it.
const maxSecret = 1 << 20

// secretDir reads the files of a folder like a secret volume's.
func secretDir(dir string) (map[string][]byte, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for _, e := range entries {
		p := filepath.Join(dir, e.Name())
		info, err := os.Stat(p) // the files of a secret volume are links
		if err != nil || !info.Mode().IsRegular() || info.Size() > maxSecret || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		if files[e.Name()], err = os.ReadFile(p); err != nil {
			return nil, err
		}
	}
	return files, nil
}
