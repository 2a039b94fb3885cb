// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"strings"

	"github.com/containerd/errdefs/pkg/errgrpc"
	"google.golang.org/grpc/status"
)

// toGRPC makes an error one of ttrpc's, in one line. errgrpc would send the parts
// of an error that wraps two as details too, and containerd would show them once
// more, on lines of their own.
func toGRPC(err error) error {
	if err == nil {
		return nil
	}
	s := status.Convert(errgrpc.ToGRPC(err))
	return status.Error(s.Code(), strings.ReplaceAll(s.Message(), "\n", "; "))
}
