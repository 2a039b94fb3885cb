// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding"
	"testing"
)

func TestUnitsAreReadAndWrittenBack(t *testing.T) {
	for _, c := range []struct {
		unit      encoding.TextUnmarshaler
		text, out string
	}{
		{new(Size), "0", "0"},
		{new(Size), "50GiB", "50GiB"},
		{new(Size), "50Gi", "50GiB"},
		{new(Size), "1024", "1KiB"},
		{new(Size), "200MB", "200000000"},
		{new(Size), "1.5 KiB", "1536"},
		{new(Duration), "90s", "1m30s"},
		{new(CPU), "1", "1"},
		{new(CPU), "0.25", "250m"},
		{new(CPU), "1500m", "1500m"},
		{new(Amount), "15%", "15%"},
		{new(Amount), "0", "0"},
		{new(Amount), "0.5 %", "0.5%"},
		{new(Amount), "5GiB", "5GiB"},
	} {
		if err := c.unit.UnmarshalText([]byte(c.text)); err != nil {
			t.Errorf("%T %q: %v", c.unit, c.text, err)
			continue
		}
		out, err := c.unit.(encoding.TextMarshaler).MarshalText()
		if err != nil || string(out) != c.out {
			t.Errorf("%T %q is written %q, %v; want %q", c.unit, c.text, out, err, c.out)
		}
		if err := c.unit.UnmarshalText(out); err != nil {
			t.Errorf("%T can't read its own %q: %v", c.unit, out, err)
		}
	}
}

func TestWhatIsNoUnitIsRefused(t *testing.T) {
	for _, c := range []struct {
		unit  encoding.TextUnmarshaler
		texts []string
	}{
		{new(Size), []string{"", "x", "1,5GB", "-1", "1.5", "NaN", "1GB1", "1e9", "16EiB"}},
		{new(Duration), []string{"", "10", "-1s", "1 day"}},
		{new(CPU), []string{"", "0", "-1", "NaN", "Inf", "1e30", "m", "0.0001"}},
		{new(Amount), []string{"", "%", "-1%", "100%", "NaN%", "x"}},
	} {
		for _, text := range c.texts {
			if err := c.unit.UnmarshalText([]byte(text)); err == nil {
				t.Errorf("%T accepts %q as %v", c.unit, text, c.unit)
			}
		}
	}
}
