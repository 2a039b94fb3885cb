// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

// summary is a median and a 95 % interval for it.
type summary struct{ median, low, high float64 }

func (s summary) String() string { return fmt.Sprintf("%.3f (%.3f to %.3f)", s.median, s.low, s.high) }

// summarize takes the interval from the order of the values: it holds whatever
// their distribution. The ranks are those of the binomial's normal approximation.
func summarize(values []float64) summary {
	sorted := slices.Sorted(slices.Values(values))
	n := float64(len(sorted))
	reach := 1.96 * math.Sqrt(n) / 2
	at := func(rank float64) float64 {
		return sorted[min(max(int(math.Round(rank)), 0), len(sorted)-1)]
	}
	return summary{median: median(sorted), low: at(n/2 - reach - 1), high: at(n/2 + reach)}
}

func median(sorted []float64) float64 {
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

func TestSummaryOfThirtyValuesTakesTheMiddleOnes(t *testing.T) {
	var values []float64
	for i := 30; i > 0; i-- {
		values = append(values, float64(i))
	}
	// Ranks 10 and 21 of 30 enclose the median with 95.7 %.
	if got := summarize(values); got != (summary{15.5, 10, 21}) {
		t.Errorf("got %v", got)
	}
}
