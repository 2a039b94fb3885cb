// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

func readDoc(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile("../../docs/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestEveryAnnotationAndCredentialIsDocumented(t *testing.T) {
	doc := readDoc(t, "annotations.md")
	for _, key := range PodKeys {
		if !strings.Contains(doc, "| `"+Prefix+key+"` |") {
			t.Errorf("%s isn't in docs/annotations.md", key)
		}
	}
	for _, field := range MountFields {
		if !regexp.MustCompile("(?m)^\\| .*`" + field + "`.* \\|").MatchString(doc) {
			t.Errorf("NAME.%s isn't in docs/annotations.md", field)
		}
	}
	doc = readDoc(t, "credentials.md")
	for _, name := range append(CredentialNames(), "HOST-headers") {
		if !strings.Contains(doc, "`"+name+"`") {
			t.Errorf("%s isn't in docs/credentials.md", name)
		}
	}
}

// Examples are what people copy.
func TestTheAnnotationsInExamplesAreValid(t *testing.T) {
	found := 0
	for _, name := range []string{"../README.md", "annotations.md", "credentials.md", "migrating.md"} {
		for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(readDoc(t, name), -1) {
			for document := range strings.SplitSeq(block[1], "\n---\n") {
				var object struct {
					Metadata struct {
						Annotations map[string]string `yaml:"annotations"`
					} `yaml:"metadata"`
				}
				if err := yaml.Unmarshal([]byte(document), &object); err != nil {
					t.Errorf("%s: %v\n%s", name, err, document)
					continue
				}
				if p, err := Parse(object.Metadata.Annotations); err != nil {
					t.Errorf("%s: %v", name, err)
				} else if p.Asks() {
					found++
				}
			}
		}
	}
	if found < 5 {
		t.Errorf("only %d examples were found", found)
	}
}
