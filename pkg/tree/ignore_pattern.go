package tree

import (
	"fmt"
	"strings"
)

// maxPattern bounds one line of an ignore file, in bytes. It is four times
// Linux's longest path, and keeps an ignore file out of a sandbox from making
// a match arbitrarily slow.
const maxPattern = 16 << 10

// pattern is one line of an ignore file, compiled.
type pattern struct {
	kind    patternKind
	literal string // what the text must be, end with (matchSuffix) or begin with
	glob    *glob  // what follows a literal beginning
	negated bool
	dirOnly bool
}

type patternKind uint8

// The kinds differ in what they look at: a pattern without "/" before its end
// sees the last element of a path, others the path below the ignore file.
const (
	matchNever  patternKind = iota
	matchName               // name == literal
	matchSuffix             // name ends with literal
	matchNameGlob
	matchPath // path == literal
	matchPathGlob
)

// globSpecial are the bytes that end a pattern's literal part.
const globSpecial = `*?[\`

// parsePattern compiles one gitignore pattern, as it stands: comments and
// trailing spaces are the business of [parseIgnoreFile]. A pattern that can
// never match is compiled to that and comes with an error that says why.
func parsePattern(text string, fold bool) (pattern, error) {
	var p pattern
	text, p.negated = strings.CutPrefix(text, "!")
	text, p.dirOnly = strings.CutSuffix(text, "/")
	anchored := strings.Contains(text, "/")
	text = strings.TrimPrefix(text, "/")
	if text == "" {
		return p, errEmptyPattern
	}
	if fold {
		text = foldUnescaped(text)
	}
	if anchored {
		return p.compile(text, matchPath, matchPathGlob, fold)
	}
	return p.compileName(text, fold)
}

func (p pattern) compileName(text string, fold bool) (pattern, error) {
	if text[0] == '*' && !strings.ContainsAny(text[1:], globSpecial) {
		p.kind, p.literal = matchSuffix, text[1:]
		return p, nil
	}
	return p.compile(text, matchName, matchNameGlob, fold)
}

// compile splits off the literal beginning and compiles the rest alone, as git
// does: so "a**/b" is a "**" to git although the stars do not stand alone.
func (p pattern) compile(text string, literal, globbed patternKind, fold bool) (pattern, error) {
	cut := strings.IndexAny(text, globSpecial)
	if cut < 0 {
		p.kind, p.literal = literal, text
		return p, nil
	}
	g, err := compileGlob(text[cut:], fold)
	if err != nil {
		return p, err
	}
	p.kind, p.literal, p.glob = globbed, text[:cut], g
	return p, nil
}

// foldUnescaped lowers the ASCII letters of a pattern's literal beginning;
// compileGlob folds the rest, where escaped letters keep their case.
func foldUnescaped(text string) string {
	cut := strings.IndexAny(text, globSpecial)
	if cut < 0 {
		return lowerString(text)
	}
	if text[0] == '*' && !strings.ContainsAny(text[1:], globSpecial) {
		return lowerString(text)
	}
	return lowerString(text[:cut]) + text[cut:]
}

func lowerString(s string) string {
	b := []byte(s)
	for i := range b {
		b[i] = lower(b[i])
	}
	return string(b)
}

// matches says whether the pattern matches an entry. path is relative to the
// pattern's directory and name its last element, both folded if the pattern is.
func (p *pattern) matches(path, name string, isDir bool) bool {
	if p.dirOnly && !isDir {
		return false
	}
	switch p.kind {
	case matchName:
		return name == p.literal
	case matchSuffix:
		return strings.HasSuffix(name, p.literal)
	case matchNameGlob:
		return strings.HasPrefix(name, p.literal) && p.glob.match(name[len(p.literal):])
	case matchPath:
		return path == p.literal
	case matchPathGlob:
		return strings.HasPrefix(path, p.literal) && p.glob.match(path[len(p.literal):])
	}
	return false
}

// patternList holds the patterns of one source, in its order.
type patternList struct {
	patterns []pattern
	// base is how many bytes of a path to cut to have it relative to the
	// source's directory.
	base int
	// git marks a source of git's own, which does not touch tracked files.
	git bool
}

// last returns the last pattern that matches, or nil.
func (l *patternList) last(path, name string, isDir bool) *pattern {
	path = path[l.base:]
	for i := len(l.patterns) - 1; i >= 0; i-- {
		if p := &l.patterns[i]; p.matches(path, name, isDir) {
			return p
		}
	}
	return nil
}

// parseIgnoreFile compiles an ignore file the way git does: lines end in LF or
// CRLF, a leading byte order mark is dropped, "#" begins a comment only at the
// start of a line, unescaped trailing spaces go, and a pattern that is
// malformed matches nothing.
func parseIgnoreFile(data []byte, fold bool) ([]pattern, error) {
	text := strings.TrimPrefix(string(data), "\ufeff")
	var patterns []pattern
	for number := 1; text != ""; number++ {
		var line string
		line, text, _ = strings.Cut(text, "\n")
		line = strings.TrimSuffix(line, "\r")
		line, _, _ = strings.Cut(line, "\x00") // git's lines are C strings
		if len(line) > maxPattern {
			return nil, fmt.Errorf("line %d: a pattern of %d bytes exceeds the limit of %d", number, len(line), maxPattern)
		}
		if strings.HasPrefix(line, "#") {
			continue
		}
		if p, err := parsePattern(trimSpaces(line), fold); err == nil {
			patterns = append(patterns, p)
		}
	}
	return patterns, nil
}

// trimSpaces cuts trailing spaces off, except one that a backslash protects.
func trimSpaces(line string) string {
	end := 0
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case ' ':
			continue
		case '\\':
			if i++; i == len(line) {
				return line
			}
		}
		end = i + 1
	}
	return line[:end]
}
