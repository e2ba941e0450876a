package tree

import (
	"strings"
	"testing"
)

// naiveMatch is a plain recursive wildmatch, against which the automaton is
// checked: exponential, and written from the description in gitignore(5).
type naiveMatch struct {
	pattern, text string
	steps         int
}

func (m *naiveMatch) at(p, i int) bool {
	if m.steps++; m.steps > 1e6 {
		return false
	}
	if p == len(m.pattern) {
		return i == len(m.text)
	}
	switch c := m.pattern[p]; c {
	case '*':
		return m.stars(p, i)
	case '?':
		return i < len(m.text) && m.text[i] != '/' && m.at(p+1, i+1)
	case '[':
		set, end, err := parseClass(m.pattern, p+1, false)
		return err == nil && i < len(m.text) && set.has(m.text[i]) && m.at(end, i+1)
	case '\\':
		if p++; p == len(m.pattern) {
			return false
		}
	}
	return i < len(m.text) && m.text[i] == m.pattern[p] && m.at(p+1, i+1)
}

func (m *naiveMatch) stars(p, i int) bool {
	end := p
	for end < len(m.pattern) && m.pattern[end] == '*' {
		end++
	}
	rest := m.pattern[end:]
	deep := end-p > 1 && (p == 0 || m.pattern[p-1] == '/') &&
		(rest == "" || rest[0] == '/' || strings.HasPrefix(rest, `\/`))
	if deep && strings.HasPrefix(rest, "/") && m.at(end+1, i) {
		return true
	}
	for ; ; i++ {
		if m.at(end, i) {
			return true
		}
		if i == len(m.text) || !deep && m.text[i] == '/' {
			return false
		}
	}
}

func FuzzGlob(f *testing.F) {
	for _, s := range [][2]string{
		{"**/a*/[b-d]?", "x/y/ab/c1"}, {"a/**/b/**", "a/b/c"}, {"*a*b**c", "aabbc"}, {"[[:alpha:]-z]", "-"}, {"\\*[]-a]", "*]"}, {"**\\/a", "b/a"}, {"***/", "a/"},
	} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, pattern, text string) {
		g, err := compileGlob(pattern, false)
		if err != nil {
			return
		}
		if _, err := compileGlob(pattern, true); err != nil {
			t.Errorf("%q is fine, but not when case is ignored: %v", pattern, err)
		}
		naive := naiveMatch{pattern: pattern, text: text}
		want := naive.at(0, 0)
		if naive.steps > 1e6 {
			return
		}
		if got := g.match(text); got != want {
			t.Errorf("%q matches %q: %v, want %v", pattern, text, got, want)
		}
	})
}

func FuzzIgnoreFile(f *testing.F) {
	f.Add([]byte("\ufeff# c\n!a/b\\ \r\n*.o \n[x\n/"), "a/b", true)
	f.Add([]byte("**/x/**\n"), "a/x/y", false)
	f.Fuzz(func(t *testing.T, data []byte, path string, isDir bool) {
		for _, fold := range []bool{false, true} {
			patterns, err := parseIgnoreFile(data, fold)
			if err != nil {
				continue
			}
			list := patternList{patterns: patterns}
			list.last(path, Base(path), isDir)
		}
	})
}

func FuzzTarExclude(f *testing.F) {
	for _, p := range []string{"a*[!b-c]?", "[[:alpha:][.a.]-z]", "[[=a=]\\]]", "[", "\\", "[!", "[[.", "[a-", "[[:zz:]a]"} {
		f.Add(p, "a/b/c")
	}
	f.Fuzz(func(t *testing.T, pattern, path string) {
		rules := compileTarExcludes([]string{pattern})
		if rules.excluded(path) && !rules.excluded(path+"/below") {
			t.Errorf("%q excludes %q, but not what is below", pattern, path)
		}
	})
}
