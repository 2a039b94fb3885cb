// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
)

// Kubeconfig is that of the cluster's administrator.
const Kubeconfig = dir + "/kubeconfig"

// authority is the certificate that the API server makes for itself, and whose
// authority it appends.
const authority = dir + "/tls/apiserver.crt"

// keys are files by which the API server knows who is who.
type keys struct {
	tokens  string // of users
	account string // signs the tokens of service accounts
}

// writeKeys writes them. Everybody here is the administrator: what roles may do
// isn't what this cluster is for.
func (c *Cluster) writeKeys() (keys, error) {
	k := keys{tokens: filepath.Join(dir, "tokens.csv"), account: filepath.Join(dir, "account.key")}
	if err := os.WriteFile(k.tokens, []byte(c.token+",admin,1,system:masters\n"), 0o600); err != nil {
		return keys{}, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return keys{}, err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return keys{}, err
	}
	return k, os.WriteFile(k.account, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600)
}

func writeKubeconfig(token string) error {
	return os.WriteFile(Kubeconfig, fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters:
- {name: e2e, cluster: {server: %q, certificate-authority: %q}}
users:
- {name: admin, user: {token: %q}}
contexts:
- {name: e2e, context: {cluster: e2e, user: admin}}
current-context: e2e
`, apiURL, authority, token), 0o600)
}
