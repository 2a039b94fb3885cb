// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"bytes"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"unicode"

	"github.com/containerd/errdefs"
)

// Credentials are what a source needs to let us read, for one host. The zero
// value is anonymous. No field can print itself.
type Credentials struct {
	// From says where they were found, for errors: `the pod's volume "NAME"`,
	// `the node's [[endpoint]] "HOST"`, "the environment"; "" when anonymous.
	From string `json:"from,omitempty"`

	AccessKey    Secret `json:"accessKey,omitzero"`
	SecretKey    Secret `json:"secretKey,omitzero"`
	SessionToken Secret `json:"sessionToken,omitzero"`
	BearerToken  Secret `json:"bearerToken,omitzero"`
	Username     Secret `json:"username,omitzero"`
	Password     Secret `json:"password,omitzero"`
	// Headers are sent to the URL's own host only.
	Headers map[string]Secret `json:"headers,omitempty"`

	// Endpoint, Insecure and Region are used where the pod's annotations
	// don't say.
	Endpoint string `json:"endpoint,omitempty"`
	Insecure *bool  `json:"insecure,omitempty"`
	Region   string `json:"region,omitempty"`
	// CABundle is PEM, added to the node's roots for this host only.
	CABundle []byte `json:"caBundle,omitempty"`
	// SkipVerify turns TLS verification off; only a node's [[endpoint]] may.
	SkipVerify bool `json:"skipVerify,omitempty"`
	// Prefixes bound what the node's own credentials are for: URLs at or below
	// one of them. None is no bound: the pod's credentials are its own affair.
	Prefixes []string `json:"prefixes,omitempty"`
}

// Cover says whether the credentials may be sent for a URL. Whoever sends them
// asks: a redirect or an index file may lead away from the URL that a pod named.
func (c Credentials) Cover(u URL) bool {
	return len(c.Prefixes) == 0 || slices.ContainsFunc(c.Prefixes, u.Under)
}

// The names of files in a secret, or of environment variables; the first one
// that is there counts. They are those of Sedna's initializer, of AWS and of
// KServe.
var (
	accessKeyNames    = []string{"ACCESS_KEY_ID", "AWS_ACCESS_KEY_ID", "accessKeyID", "awsAccessKeyID"}
	secretKeyNames    = []string{"SECRET_ACCESS_KEY", "AWS_SECRET_ACCESS_KEY", "secretAccessKey", "awsSecretAccessKey"}
	sessionTokenNames = []string{"SESSION_TOKEN", "AWS_SESSION_TOKEN"}
	endpointNames     = []string{"S3_ENDPOINT_URL", "AWS_ENDPOINT_URL", "s3-endpoint"}
	regionNames       = []string{"S3_REGION", "AWS_REGION", "AWS_DEFAULT_REGION"}
	caBundleNames     = []string{"CA_BUNDLE", "ca.crt", "cabundle.crt"}
	bearerNames       = []string{"BEARER_TOKEN", "HF_TOKEN"}
	usernameNames     = []string{"username"}
	passwordNames     = []string{"password"}
)

// CredentialNames are all names that ParseCredentials looks for, but for
// HOST-headers. Whoever has an environment rather than a secret picks them out.
func CredentialNames() []string {
	var all []string
	for _, names := range [][]string{
		accessKeyNames, secretKeyNames, sessionTokenNames, endpointNames, regionNames,
		caBundleNames, bearerNames, usernameNames, passwordNames,
	} {
		all = append(all, names...)
	}
	return all
}

// CheckNames refuses a secret in which no file has a name that
// ParseCredentials knows, for any host: whoever named it meant to have
// credentials, and an anonymous download would fail later and say less.
func CheckNames(files map[string][]byte) error {
	known := CredentialNames()
	for name := range files {
		if slices.Contains(known, name) || strings.HasSuffix(strings.ToLower(name), "-headers") {
			return nil
		}
	}
	var names []string
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if len(names) == maxNames {
			names = append(names, "...")
			break
		}
		names = append(names, show(name))
	}
	return fmt.Errorf("none of its files (%s) has a name that is known, like ACCESS_KEY_ID and SECRET_ACCESS_KEY, BEARER_TOKEN, ca.crt or HOST-headers: %w",
		strings.Join(names, ", "), errdefs.ErrInvalidArgument)
}

// maxNames is how many files of a secret an error names.
const maxNames = 6

const (
	maxText     = 64 << 10
	maxCABundle = 1 << 20
)

// ParseCredentials reads credentials for a URL's host, for s3 the bucket, from
// the files of a secret or from an environment in the same form. Files of
// other names are left alone. No error repeats a value.
func ParseCredentials(files map[string][]byte, host string) (Credentials, error) {
	s := secretFiles{files: files}
	c := Credentials{
		AccessKey:    s.secret(accessKeyNames),
		SecretKey:    s.secret(secretKeyNames),
		SessionToken: s.secret(sessionTokenNames),
		BearerToken:  s.secret(bearerNames),
		Username:     s.secret(usernameNames),
		Password:     s.secret(passwordNames),
		CABundle:     s.caBundle(),
		Headers:      s.headers(host),
	}
	c.Endpoint, c.Insecure = s.endpoint()
	c.Region = s.region()
	s.pair(c.AccessKey, c.SecretKey, accessKeyNames, secretKeyNames)
	s.pair(c.Username, c.Password, usernameNames, passwordNames)
	s.contradictions(c)
	if err := s.found.err("the credentials", nil); err != nil {
		return Credentials{}, err
	}
	return c, nil
}

// secretFiles reads a secret's files and collects what is wrong with them.
type secretFiles struct {
	files map[string][]byte
	found findings
}

// first gives the first of the names that holds anything.
func (s *secretFiles) first(names []string) (name, value string) {
	for _, name := range names {
		if data := bytes.TrimRight(s.files[name], "\r\n"); len(data) > 0 {
			return name, string(data)
		}
	}
	return "", ""
}

// text is first for values that are one line and may become a header.
func (s *secretFiles) text(names []string) (name, value string) {
	name, value = s.first(names)
	switch {
	case len(value) > maxText:
		s.found.add(name, "", "has more than %d bytes", maxText)
	case strings.ContainsFunc(value, unicode.IsControl):
		s.found.add(name, "a value is one line; is it encoded twice?", "has a line break or control character in it")
	default:
		return name, value
	}
	return name, ""
}

func (s *secretFiles) secret(names []string) Secret {
	_, value := s.text(names)
	return NewSecret(value)
}

func (s *secretFiles) endpoint() (string, *bool) {
	name, value := s.text(endpointNames)
	if value == "" {
		return "", nil
	}
	host, insecure, err := parseEndpoint(strings.TrimSpace(value))
	s.found.fault(name, err)
	return host, insecure
}

func (s *secretFiles) region() string {
	name, value := s.text(regionNames)
	value = strings.TrimSpace(value)
	if value == "" {
		return ""
	}
	s.found.fault(name, checkRegion(value))
	return value
}

func (s *secretFiles) caBundle() []byte {
	name, value := s.first(caBundleNames)
	if name == "" {
		return nil
	}
	if len(value) > maxCABundle {
		s.found.add(name, "", "has more than %d bytes", maxCABundle)
		return nil
	}
	s.found.fault(name, checkPEM([]byte(value)))
	return []byte(value)
}

// pair refuses half a pair: a typing error in a name must not make an
// anonymous request of a signed one.
func (s *secretFiles) pair(one, other Secret, names, otherNames []string) {
	if one.IsZero() == other.IsZero() || len(s.found.mistakes) > 0 {
		return
	}
	if one.IsZero() {
		names, otherNames = otherNames, names
	}
	have, _ := s.first(names)
	s.found.add(have, "the other half is named "+strings.Join(otherNames, " or "), "is only half of a pair")
}

func (s *secretFiles) contradictions(c Credentials) {
	if !c.SessionToken.IsZero() && c.AccessKey.IsZero() && len(s.found.mistakes) == 0 {
		have, _ := s.first(sessionTokenNames)
		s.found.add(have, "add "+accessKeyNames[0]+" and "+secretKeyNames[0], "belongs to an access key, which isn't there")
	}
	ways := 0
	for _, there := range []bool{!c.BearerToken.IsZero(), !c.Username.IsZero(), !c.Headers["Authorization"].IsZero()} {
		if there {
			ways++
		}
	}
	if ways > 1 {
		have, _ := s.first(append(append([]string{}, bearerNames...), usernameNames...))
		s.found.add(have, "keep one of bearer token, username and password, and an Authorization header", "is one of several ways to authorize one request")
	}
}

// headerFiles are the names under which headers for a host may stand: Sedna's,
// and without the port, since a secret's key can't have a colon.
func headerFiles(host string) []string {
	host = strings.ToLower(host)
	names := []string{host + "-headers"}
	if name, _, err := net.SplitHostPort(host); err == nil {
		names = append(names, name+"-headers")
	}
	return names
}

// String says what kinds of credentials there are and none of them.
func (c Credentials) String() string {
	var kinds []string
	for _, k := range []struct {
		there bool
		kind  string
	}{
		{!c.AccessKey.IsZero(), "access key"},
		{!c.SessionToken.IsZero(), "session token"},
		{!c.BearerToken.IsZero(), "bearer token"},
		{!c.Username.IsZero(), "username and password"},
		{len(c.Headers) > 0, "headers"},
		{len(c.CABundle) > 0, "CA bundle"},
	} {
		if k.there {
			kinds = append(kinds, k.kind)
		}
	}
	if kinds == nil {
		return "anonymous"
	}
	text := strings.Join(kinds, ", ")
	if c.From != "" {
		text += " from " + c.From
	}
	return text
}

// Format implements fmt.Formatter, so that no verb shows more than String.
func (c Credentials) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(c.String())) }
