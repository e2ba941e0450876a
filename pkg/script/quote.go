// Package script runs POSIX shell scripts in a sandbox and reads their replies.
//
// It makes up for what exec transports lose. A reply is framed by lines with a
// random word in them, so that a reply that was cut short, an exit event that
// was lost and standard error mixed into standard output are all noticed. What
// a script reads and writes is text where the transport needs text.
package script

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
