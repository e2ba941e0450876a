package provider

import "strings"

// Suggest returns the word of from that word was probably meant to be, or ""
// if none comes near. Among equals the first one wins.
func Suggest(word string, from []string) string {
	// A third of the letters may be wrong, and one always: more than that
	// suggests words that have nothing to do with what was typed.
	best, limit := "", max(1, len(word)/3)
	lower := strings.ToLower(word)
	for _, candidate := range from {
		d := editDistance(lower, strings.ToLower(candidate))
		if d == len(candidate) {
			continue // nothing in common
		}
		if d < limit || d == limit && best == "" {
			best, limit = candidate, d
		}
	}
	if best != "" || len(word) < 2 {
		return best
	}
	for _, candidate := range from {
		if strings.HasPrefix(strings.ToLower(candidate), lower) {
			return candidate
		}
	}
	return ""
}

// editDistance counts the insertions, deletions, replacements and swaps of
// neighbours that turn a into b (optimal string alignment).
func editDistance(a, b string) int {
	before, above, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range above {
		above[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			replace := above[j-1]
			if a[i-1] != b[j-1] {
				replace++
			}
			row[j] = min(replace, above[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, above, row = above, row, before
	}
	return above[len(b)]
}
