// Package shell writes text for POSIX shells.
package shell

import "strings"

// Quote returns s as one word of a POSIX shell, whatever bytes it holds but
// NUL, which no argument can carry.
func Quote(s string) string {
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// AppendQuoted appends Quote(s) to b.
func AppendQuoted(b []byte, s string) []byte {
	b = append(b, '\'')
	for i := range len(s) {
		if s[i] == '\'' {
			b = append(b, `'\''`...)
		} else {
			b = append(b, s[i])
		}
	}
	return append(b, '\'')
}

// QuotedLen is the length of Quote(s).
func QuotedLen(s string) int { return len(s) + 2 + 3*strings.Count(s, "'") }

// IsVariable says whether a shell takes the name for that of a variable.
func IsVariable(name string) bool {
	for i := range len(name) {
		c := name[i]
		if c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}
