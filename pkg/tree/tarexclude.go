package tree

import "strings"

// tarExcludes are the exclude patterns of a contract mapping. They mean what
// they mean to `tar -C ROOT --exclude=PATTERN -c .` (GNU tar 1.34 in the C
// locale): members are called "./a/b"; a pattern is tried at the start of the
// name and after each "/", matches whole elements, lets its wildcards cross
// "/", and takes what is below a match. A malformed pattern is, as with tar,
// no error: it matches what the C library's fnmatch makes of it, as far as that
// is the same in all its versions.
type tarExcludes struct {
	literals []string
	globs    []*glob
}

func compileTarExcludes(patterns []string) *tarExcludes {
	t := &tarExcludes{}
	for _, p := range patterns {
		if p == "" {
			continue
		}
		if literal, ok := tarLiteral(p); ok {
			t.literals = append(t.literals, literal)
		} else if g := compileTarGlob(p); g != nil {
			t.globs = append(t.globs, g)
		}
	}
	return t
}

// excluded says whether a pattern matches the entry or something above it.
func (t *tarExcludes) excluded(path string) bool {
	if len(t.literals) == 0 && len(t.globs) == 0 {
		return false
	}
	member := "./" + path
	for _, l := range t.literals {
		if containsElements(member, l) {
			return true
		}
	}
	for _, g := range t.globs {
		if g.matchMember(member) {
			return true
		}
	}
	return false
}

// containsElements says whether part is a run of whole path elements of name.
func containsElements(name, part string) bool {
	for start := 0; ; {
		rest := name[start:]
		if strings.HasPrefix(rest, part) && (len(rest) == len(part) || rest[len(part)] == '/') {
			return true
		}
		slash := strings.IndexByte(rest, '/')
		if slash < 0 {
			return false
		}
		start += slash + 1
	}
}

// matchMember is match, but may begin after any "/" and end before any.
func (g *glob) matchMember(name string) bool {
	var space [2][stateWords]uint64
	now, next := space[0][:], space[1][:]
	if n := len(g.tokens)/64 + 1; n > stateWords {
		now, next = make([]uint64, n), make([]uint64, n)
	}
	for i := range len(name) {
		if i == 0 || name[i-1] == '/' {
			g.enter(now, 0)
		}
		if name[i] == '/' && g.accepts(now) {
			return true
		}
		g.step(now, next, name[i])
		now, next = next, now
		clear(next)
	}
	return g.accepts(now)
}

// tarLiteral returns what a pattern without wildcards stands for. Tar looks
// such patterns up as names, where a lone backslash at the end is a backslash.
func tarLiteral(pattern string) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(pattern); i++ {
		switch pattern[i] {
		case '?', '*', '[':
			return "", false
		case '\\':
			if i+1 < len(pattern) {
				i++
			}
		}
		b.WriteByte(pattern[i])
	}
	return b.String(), true
}

// compileTarGlob compiles a pattern as fnmatch reads it without FNM_PATHNAME;
// nil if it can never match.
func compileTarGlob(pattern string) *glob {
	g := &glob{}
	for i := 0; i < len(pattern); i++ {
		t := token{kind: tokByte, b: pattern[i]}
		switch pattern[i] {
		case '\\':
			if i++; i == len(pattern) {
				return nil
			}
			t.b = pattern[i]
		case '?':
			t.kind = tokOne
		case '*':
			t.kind = tokDeep
		case '[':
			set, end, result := parseTarClass(pattern, i+1)
			switch result {
			case classBad:
				return nil
			case classGood:
				t.kind, t.set = tokClass, set
				i = end - 1
			}
		}
		g.tokens = append(g.tokens, t)
	}
	return g
}

type classResult int

const (
	classGood classResult = iota
	classOpen             // no "]": "[" is a plain byte
	classBad              // never matches
)

// parseTarClass parses a bracket expression whose "[" is before pattern[i],
// the way the GNU C library's fnmatch (2.36) does in the C locale.
func parseTarClass(pattern string, i int) (set byteSet, end int, result classResult) {
	negated := i < len(pattern) && (pattern[i] == '!' || pattern[i] == '^')
	if negated {
		i++
	}
	p := tarClassParser{rest: pattern[i:]}
	for first := true; first || !strings.HasPrefix(p.rest, "]"); first = false {
		if result = p.item(); result != classGood {
			return set, 0, result
		}
	}
	end = len(pattern) - len(p.rest) + 1
	if p.stopped && negated {
		return set, end, classBad
	}
	if negated {
		for w := range p.set {
			p.set[w] = ^p.set[w]
		}
	}
	return p.set, end, classGood
}

type tarClassParser struct {
	rest string
	set  byteSet
	// stopped says that an unknown [:name:] or [.name.] was seen. Members
	// before it match nonetheless, those after it do not.
	stopped bool
}

func (p *tarClassParser) add(c byte) {
	if !p.stopped {
		p.set.add(c)
	}
}

func (p *tarClassParser) item() classResult {
	if p.rest == "" {
		return classOpen
	}
	if strings.HasPrefix(p.rest, "[:") {
		if name, after, ok := cutClassName(p.rest[2:]); ok {
			p.addNamed(name)
			p.rest = after
			return classGood
		}
	}
	if len(p.rest) >= 5 && p.rest[:2] == "[=" && p.rest[3:5] == "=]" {
		p.add(p.rest[2])
		p.rest = p.rest[5:]
		return classGood
	}
	return p.byteOrRange()
}

func (p *tarClassParser) addNamed(name string) {
	in := namedClass(name)
	if in == nil {
		p.stopped = true
		return
	}
	for c := range byte(128) {
		if in(c) {
			p.add(c)
		}
	}
}

// byteOrRange reads "a", "a-z" and their escaped and [.a.] spellings.
func (p *tarClassParser) byteOrRange() classResult {
	lo, ok := p.member()
	if !ok {
		return classBad
	}
	if len(p.rest) < 2 || p.rest[0] != '-' || p.rest[1] == ']' {
		p.add(lo)
		return classGood
	}
	p.rest = p.rest[1:]
	hi, ok := p.member()
	if !ok {
		return classBad
	}
	for c := int(lo); c <= int(hi); c++ {
		p.add(byte(c))
	}
	return classGood
}

func (p *tarClassParser) member() (c byte, ok bool) {
	size := 1
	switch {
	case p.rest[0] == '\\':
		if len(p.rest) < 2 {
			return 0, false
		}
		c, size = p.rest[1], 2
	case strings.HasPrefix(p.rest, "[."):
		length := strings.Index(p.rest[2:], ".]")
		if length < 0 {
			return 0, false
		}
		p.stopped = p.stopped || length != 1 // only bytes have names in the C locale
		c, size = p.rest[2], 2+length+2
	default:
		c = p.rest[0]
	}
	p.rest = p.rest[size:]
	return c, true
}

// cutClassName cuts "name:]" off; a name is lower case letters.
func cutClassName(s string) (name, after string, ok bool) {
	name, after, ok = strings.Cut(s, ":]")
	for i := range len(name) {
		// The C library's test leaves "z" out; no class has one.
		if name[i] < 'a' || name[i] >= 'z' {
			return "", "", false
		}
	}
	return name, after, ok
}
