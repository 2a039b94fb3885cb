// SPDX-License-Identifier: Apache-2.0

package plan

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
}
