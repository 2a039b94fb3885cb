// SPDX-License-Identifier: Apache-2.0

package config

import (
	"os"
	"reflect"
	"strings"
	"testing"
)

func TestEveryKeyIsDocumented(t *testing.T) {
	data, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range allKeys(reflect.TypeFor[Config]()) {
		if !strings.Contains(string(data), "`"+key+"`") && !strings.Contains(string(data), "["+key+"]") {
			t.Errorf("%s isn't in docs/configuration.md", key)
		}
	}
	for _, folder := range systemFolders {
		name := strings.TrimPrefix(folder, "/var/lib/")
		if name != "snap" && !strings.Contains(string(data), name) && !strings.HasPrefix(folder, "/lib") && !strings.HasSuffix(folder, "snap") {
			t.Errorf("%s isn't in docs/configuration.md", folder)
		}
	}
}
