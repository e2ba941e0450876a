package tree

import "strings"

// parseClass parses a bracket expression whose "[" is before pattern[i], the
// way git's wildmatch does. It returns the set and the index after "]". The
// set never has "/".
func parseClass(pattern string, i int, fold bool) (set byteSet, end int, err error) {
	negated := i < len(pattern) && (pattern[i] == '!' || pattern[i] == '^')
	if negated {
		i++
	}
	p := classParser{pattern: pattern, i: i, fold: fold}
	for first := true; first || !p.at(']'); first = false {
		if err := p.item(); err != nil {
			return set, 0, err
		}
	}
	for c := range 256 {
		t := byte(c)
		if fold {
			t = lower(t)
		}
		if p.set.has(t) != negated && c != '/' {
			set.add(byte(c))
		}
	}
	return set, p.i + 1, nil
}

// classParser collects the members of a bracket expression.
type classParser struct {
	pattern string
	i       int
	fold    bool
	prev    byte // what a "-" would start a range from; 0 if nothing can
	set     byteSet
}

func (p *classParser) at(c byte) bool { return p.i < len(p.pattern) && p.pattern[p.i] == c }

// item reads one member: a byte, an escaped byte, a range's end, a [:class:].
func (p *classParser) item() error {
	if p.i >= len(p.pattern) {
		return errClassOpen
	}
	c := p.pattern[p.i]
	switch {
	case c == '\\':
		c, ok := p.escaped()
		if !ok {
			return errClassOpen
		}
		p.set.add(c)
		p.prev = c
	case c == '-' && p.prev != 0 && p.i+1 < len(p.pattern) && p.pattern[p.i+1] != ']':
		p.i++
		hi, ok := p.escaped()
		if !ok {
			return errClassOpen
		}
		p.addRange(p.prev, hi)
		p.prev = 0
	case c == '[' && strings.HasPrefix(p.pattern[p.i+1:], ":"):
		return p.named()
	default:
		p.set.add(c)
		p.prev = c
	}
	p.i++
	return nil
}

// escaped returns the byte at the position, or the one after it if it is a
// backslash, and leaves the position on it.
func (p *classParser) escaped() (byte, bool) {
	if p.at('\\') {
		p.i++
	}
	if p.i >= len(p.pattern) {
		return 0, false
	}
	return p.pattern[p.i], true
}

func (p *classParser) addRange(lo, hi byte) {
	for c := int(lo); c <= int(hi); c++ {
		p.set.add(byte(c))
		if p.fold {
			p.set.add(lower(byte(c)))
		}
	}
}

// named reads "[:name:]", or takes its "[" for a plain byte if no ":]" ends it.
func (p *classParser) named() error {
	start := p.i + 2
	length := strings.IndexByte(p.pattern[start:], ']')
	if length < 0 {
		return errClassOpen
	}
	name, ok := strings.CutSuffix(p.pattern[start:start+length], ":")
	if !ok {
		p.set.add('[')
		p.prev = '['
		p.i++
		return nil
	}
	in := namedClass(name)
	if in == nil {
		return errClassName
	}
	for c := range byte(128) {
		if in(c) || p.fold && name == "upper" && c >= 'a' && c <= 'z' {
			p.set.add(c)
		}
	}
	p.prev = 0
	p.i = start + length + 1
	return nil
}

// namedClass returns the test of a POSIX character class in the C locale.
func namedClass(name string) func(c byte) bool {
	isLower := func(c byte) bool { return c >= 'a' && c <= 'z' }
	isUpper := func(c byte) bool { return c >= 'A' && c <= 'Z' }
	isDigit := func(c byte) bool { return c >= '0' && c <= '9' }
	isAlpha := func(c byte) bool { return isLower(c) || isUpper(c) }
	isGraph := func(c byte) bool { return c > ' ' && c < 0x7f }
	switch name {
	case "alnum":
		return func(c byte) bool { return isAlpha(c) || isDigit(c) }
	case "alpha":
		return isAlpha
	case "blank":
		return func(c byte) bool { return c == ' ' || c == '\t' }
	case "cntrl":
		return func(c byte) bool { return c < ' ' || c == 0x7f }
	case "digit":
		return isDigit
	case "graph":
		return isGraph
	case "lower":
		return isLower
	case "print":
		return func(c byte) bool { return isGraph(c) || c == ' ' }
	case "punct":
		return func(c byte) bool { return isGraph(c) && !isAlpha(c) && !isDigit(c) }
	case "space":
		return isSpace
	case "upper":
		return isUpper
	case "xdigit":
		return func(c byte) bool { return isDigit(c) || lower(c) >= 'a' && lower(c) <= 'f' }
	}
	return nil
}

// isSpace is C's isspace.
func isSpace(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }
