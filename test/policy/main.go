// SPDX-License-Identifier: Apache-2.0

// Command policy is a CNI plugin, chained after the one that makes a pod's
// network: it denies what the pod's own annotation says, before any container
// of the pod runs.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil/policy"
)

// config is what a plugin reads on stdin, CNI's SPEC.md.
type config struct {
	CNIVersion    string          `json:"cniVersion"`
	Previous      json.RawMessage `json:"prevResult"`
	RuntimeConfig struct {
		// containerd internal/cri/annotations/annotations.go:PodAnnotations
		Annotations map[string]string `json:"io.kubernetes.cri.pod-annotations"`
	} `json:"runtimeConfig"`
}

func main() {
	if err := run(os.Getenv("CNI_COMMAND"), os.Getenv("CNI_NETNS")); err != nil {
		_ = json.NewEncoder(os.Stdout).Encode(map[string]any{"cniVersion": "1.0.0", "code": 100, "msg": err.Error()})
		os.Exit(1)
	}
}

func run(command, netns string) error {
	switch command {
	case "VERSION":
		fmt.Println(`{"cniVersion": "1.0.0", "supportedVersions": ["0.4.0", "1.0.0"]}`)
		return nil
	case "ADD":
	default:
		return nil // the rule goes with its namespace
	}
	var c config
	if err := json.NewDecoder(os.Stdin).Decode(&c); err != nil {
		return err
	}
	if rule := c.RuntimeConfig.Annotations[policy.Annotation]; rule != "" {
		if err := policy.Apply(netns, rule); err != nil {
			return err
		}
	}
	_, err := os.Stdout.Write(c.Previous)
	return err
}
