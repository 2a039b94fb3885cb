// SPDX-License-Identifier: Apache-2.0

// Package test checks what the folder says of itself.
package test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestFieldReportsNameTestsThatExist(t *testing.T) {
	text, err := os.ReadFile("field-reports.md")
	if err != nil {
		t.Fatal(err)
	}
	exists := tests(t)
	names := regexp.MustCompile("`(Test[A-Za-z0-9_]+)`").FindAllStringSubmatch(string(text), -1)
	if len(names) == 0 {
		t.Error("no test is named")
	}
	for _, name := range names {
		if !exists[name[1]] {
			t.Errorf("there is no %s", name[1])
		}
	}
}

// tests are the names of all tests of the repository.
func tests(t *testing.T) map[string]bool {
	t.Helper()
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	found := map[string]bool{}
	err := filepath.WalkDir("..", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (entry.Name() == "bin" || entry.Name() == ".git") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(name, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		for _, match := range declared.FindAllSubmatch(text, -1) {
			found[string(match[1])] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
