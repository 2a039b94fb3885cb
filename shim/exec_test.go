// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"encoding/json"
	"testing"
)

func TestExecutedProcessesGetTheVariables(t *testing.T) {
	for _, tt := range []struct{ name, process, want string }{
		{
			"beside its own", `{"args":["sh"],"env":["PATH=/bin"],"unknown":{"n":12345678901234567890}}`,
			`{"args":["sh"],"env":["PATH=/bin","MODEL=/downloads/m"],"unknown":{"n":12345678901234567890}}`,
		},
		{"without an environment", `{"args":["sh"]}`, `{"args":["sh"],"env":["MODEL=/downloads/m"]}`},
		{"but never over the user's", `{"env":["MODEL=mine"]}`, `{"env":["MODEL=mine"]}`},
		{"a name that begins alike is another", `{"env":["MODEL_2=mine"]}`, `{"env":["MODEL_2=mine","MODEL=/downloads/m"]}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := addEnv([]byte(tt.process), []string{"MODEL=/downloads/m"})
			if err != nil || string(got) != tt.want {
				t.Errorf("got  %s, %v\nwant %s", got, err, tt.want)
			}
		})
	}
}

func FuzzAddEnv(f *testing.F) {
	f.Add([]byte(`{"args":["sh"],"env":["PATH=/bin"]}`))
	f.Add([]byte(`{"env":null}`))
	f.Fuzz(func(t *testing.T, process []byte) {
		got, err := addEnv(process, []string{"MODEL=/downloads/m"})
		if err == nil && !json.Valid(got) {
			t.Errorf("%q became %q", process, got)
		}
	})
}
