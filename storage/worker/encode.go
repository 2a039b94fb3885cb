// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"encoding/json"
	"fmt"

	"github.com/sedna-io/containerd-shim-sedna/storage/plan"
)

// download is plan.Download without its methods and its URL's redaction.
type download plan.Download

// wireItem is an Item as it travels: with its secrets, which their own types
// refuse to print.
type wireItem struct {
	download
	URL         string          `json:"url"`
	Credentials wireCredentials `json:"credentials"`
}

type wireCredentials struct {
	plan.Credentials
	AccessKey    string            `json:"accessKey,omitempty"`
	SecretKey    string            `json:"secretKey,omitempty"`
	SessionToken string            `json:"sessionToken,omitempty"`
	BearerToken  string            `json:"bearerToken,omitempty"`
	Username     string            `json:"username,omitempty"`
	Password     string            `json:"password,omitempty"`
	Headers      map[string]string `json:"headers,omitempty"`
}

// MarshalJSON implements json.Marshaler with the secrets in it.
func (i Item) MarshalJSON() ([]byte, error) {
	c := i.Credentials
	w := wireItem{
		download: download(i.Download),
		URL:      i.URL.Reveal(),
		Credentials: wireCredentials{
			Credentials:  c,
			AccessKey:    c.AccessKey.Reveal(),
			SecretKey:    c.SecretKey.Reveal(),
			SessionToken: c.SessionToken.Reveal(),
			BearerToken:  c.BearerToken.Reveal(),
			Username:     c.Username.Reveal(),
			Password:     c.Password.Reveal(),
		},
	}
	if len(c.Headers) > 0 {
		w.Credentials.Headers = make(map[string]string, len(c.Headers))
		for name, value := range c.Headers {
			w.Credentials.Headers[name] = value.Reveal()
		}
	}
	return json.Marshal(w)
}

// UnmarshalJSON implements json.Unmarshaler.
func (i *Item) UnmarshalJSON(data []byte) error {
	var w wireItem
	if err := json.Unmarshal(data, &w); err != nil {
		return err
	}
	u, err := plan.ParseURL(w.URL)
	if err != nil {
		return fmt.Errorf("url of a download: %w", err)
	}
	i.Download = plan.Download(w.download)
	i.URL = u
	i.Credentials = w.Credentials.Credentials
	c := &i.Credentials
	c.AccessKey = plan.NewSecret(w.Credentials.AccessKey)
	c.SecretKey = plan.NewSecret(w.Credentials.SecretKey)
	c.SessionToken = plan.NewSecret(w.Credentials.SessionToken)
	c.BearerToken = plan.NewSecret(w.Credentials.BearerToken)
	c.Username = plan.NewSecret(w.Credentials.Username)
	c.Password = plan.NewSecret(w.Credentials.Password)
	c.Headers = nil
	for name, value := range w.Credentials.Headers {
		if c.Headers == nil {
			c.Headers = map[string]plan.Secret{}
		}
		c.Headers[name] = plan.NewSecret(value)
	}
	return nil
}
