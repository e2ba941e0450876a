package tree

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// configValue is one assignment of a git configuration file. Section and name
// are in lower case; noValue marks a name that stands alone, which means true.
type configValue struct {
	section, subsection, name string
	value                     string
	noValue                   bool
}

func (v *configValue) setBool(to *bool) error {
	if v.noValue {
		*to = true
		return nil
	}
	b, ok := gitBool(v.value)
	if !ok {
		return fmt.Errorf("%s.%s: bad boolean %q", v.section, v.name, v.value)
	}
	*to = b
	return nil
}

// gitBool parses a boolean as git does.
func gitBool(s string) (value, ok bool) {
	switch lowerString(s) {
	case "true", "yes", "on":
		return true, true
	case "false", "no", "off", "":
		return false, true
	}
	n, err := strconv.Atoi(s)
	return n != 0, err == nil
}

var (
	errConfigHeader = errors.New("bad section header")
	errConfigName   = errors.New("bad variable name")
	errConfigQuote  = errors.New("a quoted value is not closed")
	errConfigEscape = errors.New("bad escape in a value")
)

// parseGitConfig calls apply for each assignment in a configuration file, in
// order. Syntax: git-config(1), "CONFIGURATION FILE".
func parseGitConfig(data []byte, apply func(configValue) error) error {
	text := strings.ReplaceAll(strings.TrimPrefix(string(data), "\ufeff"), "\r\n", "\n")
	p := configParser{rest: text, line: 1}
	for p.skipBlank(); p.rest != ""; p.skipBlank() {
		if err := p.element(apply); err != nil {
			return fmt.Errorf("line %d: %w", p.line, err)
		}
	}
	return nil
}

type configParser struct {
	rest                string
	line                int
	section, subsection string
}

// skipBlank skips white space and comments.
func (p *configParser) skipBlank() {
	for p.rest != "" {
		switch c := p.rest[0]; {
		case c == '#' || c == ';':
			_, p.rest = cutLine(p.rest)
			p.line++
		case isSpace(c):
			p.next()
		default:
			return
		}
	}
}

func cutLine(s string) (line, rest string) {
	line, rest, _ = strings.Cut(s, "\n")
	return line, rest
}

// next takes a byte; the end of the file reads as a line's end.
func (p *configParser) next() byte {
	if p.rest == "" {
		return '\n'
	}
	c := p.rest[0]
	p.rest = p.rest[1:]
	if c == '\n' {
		p.line++
	}
	return c
}

func (p *configParser) element(apply func(configValue) error) error {
	if p.rest[0] == '[' {
		return p.header()
	}
	v := configValue{section: p.section, subsection: p.subsection}
	end := strings.IndexFunc(p.rest, func(c rune) bool { return !isConfigName(c) })
	if end < 0 {
		end = len(p.rest)
	}
	if end == 0 || p.section == "" {
		return errConfigName
	}
	v.name, p.rest = lowerString(p.rest[:end]), p.rest[end:]
	p.rest = strings.TrimLeft(p.rest, " \t")
	switch c := p.next(); c {
	case '=':
		value, err := p.value()
		if err != nil {
			return err
		}
		v.value = value
	case '\n':
		v.noValue = true
	default:
		return errConfigName
	}
	return apply(v)
}

func isConfigName(c rune) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-'
}

// header reads [section], [section "subsection"] or the old [section.sub].
func (p *configParser) header() error {
	p.rest = p.rest[1:]
	end := strings.IndexFunc(p.rest, func(c rune) bool { return !isConfigName(c) && c != '.' })
	if end <= 0 {
		return errConfigHeader
	}
	section, sub, _ := strings.Cut(lowerString(p.rest[:end]), ".")
	p.rest = strings.TrimLeft(p.rest[end:], " \t")
	if strings.HasPrefix(p.rest, `"`) {
		var ok bool
		if sub, ok = p.quoted(); !ok {
			return errConfigHeader
		}
	}
	if p.next() != ']' {
		return errConfigHeader
	}
	p.section, p.subsection = section, sub
	return nil
}

// quoted reads a subsection's name; a backslash escapes any byte.
func (p *configParser) quoted() (string, bool) {
	var b strings.Builder
	for i := 1; i < len(p.rest); i++ {
		switch p.rest[i] {
		case '"':
			p.rest = p.rest[i+1:]
			return b.String(), true
		case '\n':
			return "", false
		case '\\':
			if i++; i == len(p.rest) || p.rest[i] == '\n' {
				return "", false
			}
		}
		b.WriteByte(p.rest[i])
	}
	return "", false
}

// value reads what is right of "=": quotes group, "#" and ";" begin a comment
// outside them, a backslash at a line's end continues it, spaces around go.
func (p *configParser) value() (string, error) {
	var b strings.Builder
	quote, spaces := false, ""
	for {
		c := p.next()
		switch {
		case c == '\n' && quote:
			return "", errConfigQuote
		case c == '\n':
			return b.String(), nil
		case isSpace(c) && !quote:
			if b.Len() > 0 {
				spaces += string(c)
			}
			continue
		case (c == '#' || c == ';') && !quote:
			_, p.rest = cutLine(p.rest)
			p.line++
			return b.String(), nil
		}
		b.WriteString(spaces)
		spaces = ""
		switch c {
		case '"':
			quote = !quote
		case '\\':
			c, ok := configEscape(p.next())
			if !ok {
				return "", errConfigEscape
			}
			if c != 0 {
				b.WriteByte(c)
			}
		default:
			b.WriteByte(c)
		}
	}
}

// configEscape returns what a backslash and c stand for; 0 is nothing.
func configEscape(c byte) (byte, bool) {
	switch c {
	case '\n':
		return 0, true
	case 't':
		return '\t', true
	case 'b':
		return '\b', true
	case 'n':
		return '\n', true
	case '\\', '"':
		return c, true
	}
	return 0, false
}
