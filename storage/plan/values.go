// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"
)

// parseBool takes what the annotations promise and nothing else: a value like
// "yes" must not be read as no.
func parseBool(value string) (bool, *fault) {
	switch value {
	case "", "false":
		return false, nil
	case "true":
		return true, nil
	}
	return false, faultf(`write "true" or "false"`, "%s is neither true nor false", show(value))
}

// oneOf returns the value, or the first choice where there is none.
func oneOf(value string, choices ...string) (string, *fault) {
	if value == "" {
		return choices[0], nil
	}
	if slices.Contains(choices, value) {
		return value, nil
	}
	return choices[0], faultf("write one of "+strings.Join(choices, ", "), "%s isn't known", show(value))
}

// sizeForm is a number with a unit of Kubernetes or of everyday life; without
// it humanize would read "1,5GB" as 15 GB.
var sizeForm = regexp.MustCompile(`^[0-9]+(\.[0-9]+)?\s*([kKMGTPE]i?)?B?$`)

func parseSize(value string) (int64, *fault) {
	if value == "" {
		return 0, nil
	}
	const hint = "write bytes, or a number with Ki, Mi, Gi, Ti, k, M, G or T"
	if !sizeForm.MatchString(value) {
		return 0, faultf(hint, "%s is no size", show(value))
	}
	n, err := humanize.ParseBytes(value)
	if err != nil || n > 1<<62 {
		return 0, faultf(hint, "%s is too large a size", show(value))
	}
	return int64(n), nil
}

// splitList splits a list at ";". Empty parts are kept, for the caller knows
// whether they mean something.
func splitList(value string) []string {
	if value == "" {
		return nil
	}
	parts := strings.Split(value, ";")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return parts
}

var digestForm = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// ParseDigest checks "sha256:HEX" and returns it in lower case.
func ParseDigest(value string) (string, error) {
	digest, err := parseDigest(value)
	if err != nil {
		return "", err
	}
	return digest, nil
}

func parseDigest(value string) (string, *fault) {
	digest := strings.ToLower(value)
	if !digestForm.MatchString(digest) {
		return "", faultf("write sha256: and 64 hex digits, as sha256sum prints them", "%s is no digest", show(value))
	}
	return digest, nil
}

// ParsePatterns checks glob patterns separated by ";".
func ParsePatterns(value string) ([]string, error) {
	patterns, err := parsePatterns(value)
	if err != nil {
		return nil, err
	}
	return patterns, nil
}

func parsePatterns(value string) ([]string, *fault) {
	patterns := splitList(value)
	for _, pattern := range patterns {
		for segment := range strings.SplitSeq(pattern, "/") {
			if err := checkPatternSegment(segment); err != nil {
				return nil, faultf(err.hint, "the pattern %s %s", show(pattern), err.problem)
			}
		}
	}
	return patterns, nil
}

func checkPatternSegment(segment string) *fault {
	switch {
	case segment == "":
		return faultf("patterns are relative to the URL, like *.bin or **/config.json", "is empty or has an empty segment")
	case segment == "." || segment == "..":
		return faultf("", "has the segment %s, which nothing matches", segment)
	case segment != "**" && strings.Contains(segment, "**"):
		return faultf("", "has ** beside other characters; it stands alone between slashes")
	}
	if _, err := path.Match(segment, ""); err != nil {
		return faultf("", "has a malformed [ ] or \\")
	}
	return nil
}
