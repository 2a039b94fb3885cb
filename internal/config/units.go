// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
)

// Duration is written "10s", "4m".
type Duration time.Duration

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil || v < 0 {
		return errors.New(`is no duration; write it like "10s" or "4m"`)
	}
	*d = Duration(v)
	return nil
}

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

func (d Duration) String() string { return time.Duration(d).String() }

// Size is a count of bytes, written "50GiB", "200MB" or "0".
type Size int64

// sizeForm keeps humanize from reading "1,5GB" as 15 GB.
var sizeForm = regexp.MustCompile(`^(0|[0-9]+(\.[0-9]+)?\s*[kKMGTPE]i?B?|[0-9]+B?)$`)

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Size) UnmarshalText(text []byte) error {
	n, err := humanize.ParseBytes(string(text))
	if err != nil || !sizeForm.Match(text) {
		return errors.New(`is no size; write it like "50GiB", "200MB" or "0"`)
	}
	if n > math.MaxInt64 {
		return errors.New("is too large a size")
	}
	*s = Size(n)
	return nil
}

// MarshalText implements encoding.TextMarshaler.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// String uses the largest binary unit that loses nothing.
func (s Size) String() string {
	n, unit := int64(s), 0
	for n != 0 && n%1024 == 0 && unit < 6 {
		n /= 1024
		unit++
	}
	return strconv.FormatInt(n, 10) + []string{"", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}[unit]
}

// CPU is a number of cores in thousandths, written "1", "0.5" or "500m".
type CPU int64

// UnmarshalText implements encoding.TextUnmarshaler.
func (c *CPU) UnmarshalText(text []byte) error {
	number, milli := strings.CutSuffix(string(text), "m")
	v, err := strconv.ParseFloat(number, 64)
	if !milli {
		v *= 1000
	}
	if err != nil || !(v >= 1 && v <= 1e9) {
		return errors.New(`is no number of cores; write it like "1" or "500m"`)
	}
	*c = CPU(math.Round(v))
	return nil
}

// MarshalText implements encoding.TextMarshaler.
func (c CPU) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

func (c CPU) String() string {
	if c%1000 == 0 {
		return strconv.FormatInt(int64(c)/1000, 10)
	}
	return fmt.Sprintf("%dm", int64(c))
}

// Amount is a part of a file system: bytes ("5GiB") or percent ("15%").
// Exactly one of its fields is set, or none for 0.
type Amount struct {
	Bytes   int64
	Percent float64
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (a *Amount) UnmarshalText(text []byte) error {
	if number, ok := strings.CutSuffix(string(text), "%"); ok {
		v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if err != nil || !(v >= 0 && v < 100) {
			return errors.New(`is no share; write it like "15%", less than 100%`)
		}
		*a = Amount{Percent: v}
		return nil
	}
	var s Size
	if err := s.UnmarshalText(text); err != nil {
		return errors.New(`is no amount; write it like "15%" or "5GiB"`)
	}
	*a = Amount{Bytes: int64(s)}
	return nil
}

// MarshalText implements encoding.TextMarshaler.
func (a Amount) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

func (a Amount) String() string {
	if a.Percent != 0 {
		return strconv.FormatFloat(a.Percent, 'f', -1, 64) + "%"
	}
	return Size(a.Bytes).String()
}
