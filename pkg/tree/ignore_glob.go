package tree

import (
	"errors"
	"math/bits"
)

// Why a pattern can never match anything.
var (
	errEmptyPattern = errors.New("it is empty")
	errNUL          = errors.New("it has a NUL byte")
	errClassOpen    = errors.New("a bracket expression is not closed")
	errClassName    = errors.New("a bracket expression has an unknown [:class:]")
	errEscapeAtEnd  = errors.New("it ends in a lone backslash")
)

// token is one state of a glob's automaton.
type token struct {
	kind tokenKind
	b    byte
	set  byteSet
}

type tokenKind uint8

const (
	tokByte  tokenKind = iota // exactly b
	tokAny                    // one byte other than "/"
	tokOne                    // one byte, "/" too
	tokClass                  // one byte of set
	tokStar                   // any run without "/"
	tokDeep                   // any run, "/" too
	tokSkip                   // either nothing, or the two tokens that follow
)

// byteSet is a set of byte values.
type byteSet [4]uint64

func (s *byteSet) add(b byte)      { s[b>>6] |= 1 << (b & 63) }
func (s *byteSet) has(b byte) bool { return s[b>>6]&(1<<(b&63)) != 0 }

// glob is a compiled pattern. It runs as a nondeterministic automaton whose
// states are a bit set, so that a match costs at most len(text) × len(pattern)
// steps whatever the pattern; the recursive matchers of git and the C library
// are exponential. The zero glob matches the empty string.
type glob struct {
	tokens []token
	fold   bool // ASCII letters match both cases
}

// stateWords is how many words of states are kept on the stack: patterns up
// to 255 tokens allocate nothing.
const stateWords = 4

// match says whether the glob matches the whole of text.
func (g *glob) match(text string) bool {
	var space [2][stateWords]uint64
	now, next := space[0][:], space[1][:]
	if n := len(g.tokens)/64 + 1; n > stateWords {
		now, next = make([]uint64, n), make([]uint64, n)
	}
	g.enter(now, 0)
	for i := range len(text) {
		c := text[i]
		if g.fold {
			c = lower(c)
		}
		if !g.step(now, next, c) {
			return false
		}
		now, next = next, now
		clear(next)
	}
	return g.accepts(now)
}

// accepts says whether the whole pattern has been matched.
func (g *glob) accepts(states []uint64) bool {
	final := len(g.tokens)
	return states[final>>6]&(1<<(final&63)) != 0
}

// step moves every state over c. It says whether any is left.
func (g *glob) step(now, next []uint64, c byte) bool {
	alive := false
	for w, word := range now {
		for ; word != 0; word &= word - 1 {
			i := w<<6 + bits.TrailingZeros64(word)
			if i == len(g.tokens) {
				continue
			}
			t := &g.tokens[i]
			switch {
			case !t.accepts(c):
				continue
			case t.kind == tokStar || t.kind == tokDeep:
				g.enter(next, i)
			default:
				g.enter(next, i+1)
			}
			alive = true
		}
	}
	return alive
}

// enter adds state i and all that is reached from it without reading a byte.
func (g *glob) enter(set []uint64, i int) {
	for set[i>>6]&(1<<(i&63)) == 0 {
		set[i>>6] |= 1 << (i & 63)
		if i == len(g.tokens) {
			return
		}
		switch g.tokens[i].kind {
		case tokSkip:
			g.enter(set, i+3)
		case tokStar, tokDeep:
		default:
			return
		}
		i++
	}
}

func (t *token) accepts(c byte) bool {
	switch t.kind {
	case tokByte:
		return t.b == c
	case tokAny, tokStar:
		return c != '/'
	case tokClass:
		return t.set.has(c)
	case tokOne, tokDeep:
		return true
	}
	return false // tokSkip reads nothing
}

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c + ('a' - 'A')
	}
	return c
}

// compileGlob compiles a pattern as git's wildmatch reads it with WM_PATHNAME
// set. A pattern that can never match gives an error.
func compileGlob(pattern string, fold bool) (*glob, error) {
	g := &glob{fold: fold}
	for i := 0; i < len(pattern); {
		switch c := pattern[i]; c {
		case '\\':
			if i+1 == len(pattern) {
				return nil, errEscapeAtEnd
			}
			g.tokens = append(g.tokens, token{kind: tokByte, b: pattern[i+1]})
			i += 2
		case '?':
			g.tokens = append(g.tokens, token{kind: tokAny})
			i++
		case '*':
			i = g.compileStars(pattern, i)
		case '[':
			set, end, err := parseClass(pattern, i+1, fold)
			if err != nil {
				return nil, err
			}
			g.tokens = append(g.tokens, token{kind: tokClass, set: set})
			i = end
		default:
			if fold {
				c = lower(c)
			}
			g.tokens = append(g.tokens, token{kind: tokByte, b: c})
			i++
		}
	}
	return g, nil
}

// compileStars compiles the run of stars at pattern[start] and returns where
// the pattern goes on. Two or more stars are "**" only if they fill a whole
// path element; otherwise they are one star.
func (g *glob) compileStars(pattern string, start int) int {
	end := start
	for end < len(pattern) && pattern[end] == '*' {
		end++
	}
	rest := pattern[end:]
	whole := (start == 0 || pattern[start-1] == '/') &&
		(rest == "" || rest[0] == '/' || len(rest) > 1 && rest[:2] == `\/`)
	switch {
	case end-start == 1 || !whole:
		g.tokens = append(g.tokens, token{kind: tokStar})
	case rest != "" && rest[0] == '/':
		g.tokens = append(g.tokens, token{kind: tokSkip}, token{kind: tokDeep}, token{kind: tokByte, b: '/'})
		end++
	default:
		g.tokens = append(g.tokens, token{kind: tokDeep})
	}
	return end
}
