// SPDX-License-Identifier: Apache-2.0

package plan

// nearest returns the known word that a misspelt one most likely means, or ""
// when none is near.
func nearest(word string, known []string) string {
	best, distance := "", 1+max(2, len(word)/3)
	if len(word) > 64 {
		return ""
	}
	for _, k := range known {
		if d := edits(word, k); d < distance {
			best, distance = k, d
		}
	}
	return best
}

// edits is the Damerau-Levenshtein distance in bytes, each stretch edited once:
// two neighbours that changed places count as one edit.
func edits(a, b string) int {
	d := make([][]int, len(a)+1)
	for i := range d {
		d[i] = make([]int, len(b)+1)
		d[i][0] = i
	}
	for j := range d[0] {
		d[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			same := d[i-1][j-1]
			if a[i-1] != b[j-1] {
				same++
			}
			d[i][j] = min(same, d[i-1][j]+1, d[i][j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d[i][j] = min(d[i][j], d[i-2][j-2]+1)
			}
		}
	}
	return d[len(a)][len(b)]
}
