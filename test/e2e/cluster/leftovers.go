// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil/node"
)

// tidyTimeout is how long kubelet has to clean up after pods that the API server
// doesn't know any more: volumes and cgroups every two seconds, logs once a minute.
const tidyTimeout = 2 * time.Minute

// Leftovers returns an error that lists what deleted pods have left on the node.
func (c *Cluster) Leftovers(ctx context.Context) error {
	return node.Poll(ctx, tidyTimeout, func(context.Context) error {
		errs := []error{c.Node.Leftovers()}
		for _, dir := range []string{filepath.Join(KubeletRoot, "pods"), PodLogs} {
			for _, name := range node.Entries(dir) {
				errs = append(errs, fmt.Errorf("left over: %s", filepath.Join(dir, name)))
			}
		}
		return errors.Join(errs...)
	})
}
