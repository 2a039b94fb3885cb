// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	taskapi "github.com/containerd/containerd/api/runtime/task/v2"
	"github.com/containerd/containerd/v2/pkg/protobuf/types"
	"github.com/containerd/errdefs"
	"google.golang.org/protobuf/types/known/anypb"
)

// Exec gives the process the variables that its container got. containerd makes
// it from the spec that it keeps, which knows nothing of ours.
func (s *Service) Exec(ctx context.Context, r *taskapi.ExecProcessRequest) (*types.Empty, error) {
	s.mu.Lock()
	variables := s.variables[r.ID]
	s.mu.Unlock()
	if len(variables) > 0 && r.Spec != nil {
		value, err := addEnv(r.Spec.Value, variables)
		if err != nil {
			return nil, toGRPC(err)
		}
		r.Spec = &anypb.Any{TypeUrl: r.Spec.TypeUrl, Value: value}
	}
	return s.TaskServiceExt.Exec(ctx, r)
}

// addEnv adds variables, NAME=VALUE each, to the JSON of an OCI process; those
// that it has stay.
func addEnv(process []byte, variables []string) ([]byte, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(process, &fields); err != nil {
		return nil, fmt.Errorf("read the process to execute: %w: %w", err, errdefs.ErrInvalidArgument)
	}
	var env []string
	if raw, ok := fields["env"]; ok {
		if err := json.Unmarshal(raw, &env); err != nil {
			return nil, fmt.Errorf("read the environment of the process to execute: %w: %w", err, errdefs.ErrInvalidArgument)
		}
	}
	for _, v := range variables {
		name, _, _ := strings.Cut(v, "=")
		if !slices.ContainsFunc(env, func(has string) bool { return strings.HasPrefix(has, name+"=") }) {
			env = append(env, v)
		}
	}
	raw, err := json.Marshal(env)
	if err != nil {
		return nil, err
	}
	fields["env"] = raw
	return json.Marshal(fields)
}

// added returns what now has and before has not.
func added(before, now []string) []string {
	var out []string
	for _, v := range now {
		if !slices.Contains(before, v) {
			out = append(out, v)
		}
	}
	return out
}
