package provider

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// Target says where a sync goes: a provider, one of its sandboxes, a path.
type Target struct {
	// Provider is the driver's name or alias, as it was written.
	Provider string
	// Ref names the sandbox in the driver's own words; empty if it needs none.
	Ref string
	// Path is absolute, POSIX and clean.
	Path string
	// Slash says that the path can only mean a directory: it was written with a
	// trailing slash, which for a single file means "into this directory".
	Slash bool
	// Name is the named target it came from, or empty.
	Name string
	// Root is the named target's root, which Path equals or lies below; empty
	// if Name is.
	Root string
}

// String returns the target in full: PROVIDER:REF:/path.
func (t Target) String() string {
	s := t.Provider + ":"
	if t.Ref != "" {
		s += t.Ref + ":"
	}
	s += t.Path
	if t.Slash && t.Path != "/" {
		s += "/"
	}
	return s
}

// Named is what the grammar needs to know of a target that has a name in the
// configuration.
type Named struct {
	Provider, Ref string
	// Root is the absolute directory that relative paths lie below.
	Root string
}

// ParseTarget reads a target: PROVIDER:REF:/absolute/path, or NAME or
// NAME:path for a target of named. The path begins at the first ":/" after
// the provider; later colons are part of it. A word that is both, a provider
// and a name, is the provider if a colon follows.
//
// goos is the host's operating system, since C:x is a host path on Windows.
// Every error is of kind [Usage], one line, with a hint.
func ParseTarget(s, goos string, named map[string]Named, isProvider func(string) bool) (Target, error) {
	return grammar{isProvider: isProvider, form: func(provider, ref string) string {
		return provider + ":" + ref + ":/absolute/path"
	}}.parse(s, goos, named)
}

// grammar is what the form of a target depends on.
type grammar struct {
	isProvider func(string) bool
	form       func(provider, ref string) string // a right target, to show
	words      []string                          // of providers, to suggest
}

func (g grammar) parse(s, goos string, named map[string]Named) (Target, error) {
	switch {
	case s == "":
		return Target{}, &Error{Kind: Usage, Err: errors.New("empty target"), Hint: targetForm}
	case strings.IndexByte(s, 0) >= 0:
		return Target{}, targetError(s, "it has a NUL byte", targetForm)
	case IsHostPath(s, goos):
		return Target{}, targetError(s, "it is a path on this machine", targetForm+"; for a directory of this machine, local:/path")
	}
	word, rest, colon := strings.Cut(s, ":")
	if colon && g.isProvider(word) {
		return g.parseFull(s, word)
	}
	if n, ok := named[word]; ok {
		return n.target(s, word, rest, g.isProvider)
	}
	if !colon && g.isProvider(word) {
		return Target{}, targetError(s, "it has no path", "write "+g.form(word, "REF"))
	}
	words := slices.Clone(g.words)
	for name := range named {
		words = append(words, name)
	}
	slices.Sort(words)
	return Target{}, targetError(s, fmt.Sprintf("%q is neither a provider nor a named target", word),
		didYouMean(word, words)+targetForm)
}

const targetForm = "write PROVIDER:REF:/absolute/path or the name of a target in the config file"

func targetError(s, cause, hint string) error {
	return &Error{Kind: Usage, Op: fmt.Sprintf("target %q", s), Err: errors.New(cause), Hint: hint}
}

// parseFull reads s, which begins with the provider and a colon.
func (g grammar) parseFull(s, provider string) (Target, error) {
	at := strings.Index(s[len(provider):], ":/")
	if at < 0 {
		ref := s[len(provider)+1:]
		if ref == "" {
			ref = "REF"
		}
		return Target{}, targetError(s, "it has no absolute path", fmt.Sprintf("write %q", g.form(provider, ref)))
	}
	at += len(provider)
	t := Target{Provider: provider, Path: path.Clean(s[at+1:]), Slash: isDirForm(s[at+1:])}
	if at > len(provider) {
		t.Ref = s[len(provider)+1 : at]
	}
	return t, nil
}

// target resolves rest, which stands after the name in s.
func (n Named) target(s, name, rest string, isProvider func(string) bool) (Target, error) {
	if !isProvider(n.Provider) {
		return Target{}, targetError(s, fmt.Sprintf("target %q of the config file has the unknown provider %q", name, n.Provider),
			"run \"sbsync providers\" for the list")
	}
	if !path.IsAbs(n.Root) {
		return Target{}, targetError(s, fmt.Sprintf("target %q of the config file has the root %q", name, n.Root),
			"make root an absolute path")
	}
	root := path.Clean(n.Root)
	full := path.Join(root, rest)
	if path.IsAbs(rest) {
		full = path.Clean(rest)
	}
	if full != root && !strings.HasPrefix(full, strings.TrimSuffix(root, "/")+"/") {
		return Target{}, targetError(s, fmt.Sprintf("it leaves the root %q of target %q", root, name),
			"write a path below the root, or the target in full: PROVIDER:REF:/path")
	}
	return Target{Provider: n.Provider, Ref: n.Ref, Path: full, Slash: full == "/" || isDirForm(rest), Name: name, Root: root}, nil
}

// isDirForm says whether p can only mean a directory.
func isDirForm(p string) bool {
	last := p[strings.LastIndexByte(p, '/')+1:]
	return p != "" && (last == "" || last == "." || last == "..")
}

// IsHostPath says whether s must be a path on this machine and not a target:
// it begins with "/", "./", "../", "~", or a drive letter. A drive letter with
// a slash or backslash after the colon is one on every system; C:x only on
// Windows. Other words may be either; where both are possible, a "./" in front
// makes a host path of them.
func IsHostPath(s, goos string) bool {
	if s == "." || s == ".." {
		return true
	}
	for _, prefix := range []string{"/", "./", "../", "~", `\`, `.\`, `..\`} {
		if strings.HasPrefix(s, prefix) {
			return true
		}
	}
	if len(s) < 2 || s[1] != ':' || !isLetter(s[0]) {
		return false
	}
	return goos == "windows" || len(s) > 2 && (s[2] == '/' || s[2] == '\\')
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
