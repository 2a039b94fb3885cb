// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil/s3"
)

// StartS3 starts an S3 server that pods reach.
func StartS3(ctx context.Context, n *Node) (*s3.Server, error) {
	server, err := s3.Start(ctx, filepath.Join(Dir, "s3"), Address)
	if err != nil {
		return nil, err
	}
	n.Adopt(server.PID())
	if err := Poll(ctx, 10*time.Second, server.Ready); err != nil {
		return nil, errors.Join(err, server.Close())
	}
	return server, nil
}
