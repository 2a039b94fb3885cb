// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// Command is a call of kubectl as the cluster's administrator.
func (c *Cluster) Command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(c.tools, "kubectl"), args...)
	// Its caches go where nothing stays.
	cmd.Env = []string{"KUBECONFIG=" + Kubeconfig, "HOME=" + dir, "PATH=/usr/bin:/bin"}
	return cmd
}

// Kubectl returns what kubectl prints.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) (string, error) {
	return output(c.Command(ctx, args...))
}

// applyText applies a manifest.
func (c *Cluster) applyText(ctx context.Context, manifest string) error {
	cmd := c.Command(ctx, "apply", "-f", "-")
	cmd.Stdin = strings.NewReader(manifest)
	_, err := output(cmd)
	return err
}

func output(cmd *exec.Cmd) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("kubectl %s: %w: %s", strings.Join(cmd.Args[1:], " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}
