// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"github.com/sedna-io/containerd-shim-sedna/storage/plan"
)

// scrubber replaces the secrets of one request wherever they stand. The worker
// already writes none: this is the second net, for what a library or a crash
// prints.
type scrubber struct{ replace *strings.Replacer }

// shortest is the length below which a secret isn't searched for: it would
// match by chance.
const shortest = 6

func newScrubber(req Request) scrubber {
	var secrets []string
	for _, item := range req.Items {
		secrets = append(secrets, urlSecrets(item.URL.Reveal())...)
		c := item.Credentials
		for _, s := range []plan.Secret{c.AccessKey, c.SecretKey, c.SessionToken, c.BearerToken, c.Username, c.Password} {
			secrets = append(secrets, s.Reveal())
		}
		secrets = append(secrets, basicAuth(c.Username.Reveal(), c.Password.Reveal()))
		for _, s := range c.Headers {
			secrets = append(secrets, s.Reveal())
		}
	}
	if u, err := url.Parse(req.Network.Proxy); err == nil && u.User != nil {
		password, _ := u.User.Password()
		secrets = append(secrets, password)
	}
	return scrubber{strings.NewReplacer(pairs(secrets)...)}
}

// urlSecrets returns the parts of a URL that may be secret.
func urlSecrets(raw string) []string {
	u, err := url.Parse(raw)
	if err != nil {
		return []string{raw}
	}
	var secrets []string
	if u.User != nil {
		password, _ := u.User.Password()
		secrets = append(secrets, u.User.Username(), password, basicAuth(u.User.Username(), password))
	}
	if u.RawQuery != "" {
		secrets = append(secrets, u.RawQuery)
	}
	for _, values := range u.Query() {
		secrets = append(secrets, values...)
	}
	return secrets
}

// basicAuth is how user and password travel, RFC 7617.
func basicAuth(user, password string) string {
	if user+password == "" {
		return ""
	}
	return base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
}

// pairs lists each secret in every form that it may be printed in, longest
// first, each followed by what stands in its place.
func pairs(secrets []string) []string {
	var forms []string
	for _, s := range secrets {
		if len(s) < shortest {
			continue
		}
		quoted, _ := json.Marshal(s)
		forms = append(forms, base64.StdEncoding.EncodeToString([]byte(s)), s, url.QueryEscape(s), url.PathEscape(s), strings.Trim(string(quoted), `"`))
	}
	slices.SortFunc(forms, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	var out []string
	for _, f := range slices.Compact(forms) {
		out = append(out, f, "REDACTED")
	}
	return out
}

func (s scrubber) string(text string) string { return s.replace.Replace(text) }

// event cleans what an event says in words. Its JSON can't be cleaned whole: a
// secret may be a word of the protocol, or digits that stand in a number.
func (s scrubber) event(e *Event) {
	var texts []*string
	if e.Progress != nil {
		texts = append(texts, &e.Progress.Waiting, &e.Progress.Trouble, &e.Progress.Item)
	}
	if e.Log != nil {
		texts = append(texts, &e.Log.Message)
	}
	if e.Failure != nil {
		texts = append(texts, &e.Failure.Message)
	}
	if e.Report != nil {
		for i := range e.Report.Items {
			item := &e.Report.Items[i]
			texts = append(texts, &item.URL, &item.Path)
		}
	}
	for _, text := range texts {
		*text = s.string(*text)
	}
}
