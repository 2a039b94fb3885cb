// SPDX-License-Identifier: Apache-2.0

package ranged

import (
	"fmt"
	"testing"
)

func TestContentRanges(t *testing.T) {
	tests := []struct {
		in   string
		want contentRange
		ok   bool
	}{
		{"bytes 0-9/100", contentRange{0, 9, 100}, true},
		{"bytes 5-9/*", contentRange{5, 9, -1}, true},
		{"bytes */100", contentRange{-1, -1, 100}, true},
		{"BYTES 0-0/1", contentRange{0, 0, 1}, true},
		{"bytes 0-9223372036854775806/9223372036854775807", contentRange{0, 1<<63 - 2, 1<<63 - 1}, true},
		{"", contentRange{}, false},
		{"bytes */*", contentRange{}, false},
		{"bytes 9-5/100", contentRange{}, false},
		{"bytes 0-100/100", contentRange{}, false},
		{"bytes -1-9/100", contentRange{}, false},
		{"bytes +1-9/100", contentRange{}, false},
		{"bytes 0-9", contentRange{}, false},
		{"items 0-9/100", contentRange{}, false},
		{"bytes 0-9/9999999999999999999999", contentRange{}, false},
		{"bytes=0-9/100", contentRange{}, false},
	}
	for _, tt := range tests {
		got, err := parseContentRange(tt.in)
		if (err == nil) != tt.ok || tt.ok && got != tt.want {
			t.Errorf("%q is %+v, %v", tt.in, got, err)
		}
	}
}

func FuzzContentRange(f *testing.F) {
	f.Add("bytes 0-9/100")
	f.Add("bytes */100")
	f.Add("bytes 1-2/*")
	f.Fuzz(func(t *testing.T, s string) {
		r, err := parseContentRange(s)
		if err != nil {
			return
		}
		switch {
		case r.first < 0 && r.size < 0:
			t.Fatalf("%q says nothing", s)
		case r.first >= 0 && (r.last < r.first || r.size >= 0 && r.last >= r.size):
			t.Fatalf("%q is impossible: %+v", s, r)
		}
		if r.first >= 0 && r.size >= 0 {
			again, err := parseContentRange(fmt.Sprintf("bytes %d-%d/%d", r.first, r.last, r.size))
			if err != nil || again != r {
				t.Fatalf("%q does not survive: %+v, %v", s, again, err)
			}
		}
	})
}

func TestOnlyStrongETagsTieParts(t *testing.T) {
	for in, want := range map[string]string{
		`"abc"`: `"abc"`, `"abc-5"`: `"abc-5"`, `W/"abc"`: "", `abc`: "", ``: "", `"`: "", `""`: `""`, "\"a\"b\"": "",
	} {
		if got := Strong(in); got != want {
			t.Errorf("%s is %q, want %q", in, got, want)
		}
	}
}
