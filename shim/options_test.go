// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"testing"

	"github.com/containerd/typeurl/v2"
	"google.golang.org/protobuf/types/known/anypb"
	"gvisor.dev/gvisor/pkg/shim/v1/runtimeoptions"
)

// gVisor's options are a gogo message, which typeurl from 2.3.0 on can't read:
// no container would start, though everything builds.
func TestRuntimeOptionsAreReadByGVisorsType(t *testing.T) {
	sent := &anypb.Any{TypeUrl: "runtimeoptions.v1.Options", Value: []byte("\x12\x05/path")}
	var got runtimeoptions.Options
	if err := typeurl.UnmarshalTo(sent, &got); err != nil {
		t.Fatal(err)
	}
	if got.ConfigPath != "/path" {
		t.Errorf("ConfigPath is %q", got.ConfigPath)
	}
}
