package transfer

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/script"
	"github.com/sbsync/sbsync/pkg/shell"
	"github.com/sbsync/sbsync/pkg/tree"
)

// maxIgnoreFile bounds what is read of an ignore file.
const maxIgnoreFile = 1 << 20

// maxTotal is more than any sandbox holds. Sizes are the sandbox's word, and up
// to here they can be added up and cut into pieces.
const maxTotal = 1 << 60

// sandboxRules are the excludes of a pull.
func (r *runner) sandboxRules(m Mapping) (*tree.Rules, error) {
	o := r.ruleOptions(m)
	if r.opt.Gitignore {
		// What is tracked is not known here; .git is left out as on a push.
		o.IgnoreFiles = append([]string{".gitignore"}, o.IgnoreFiles...)
		o.Exclude = append([]string{".git"}, o.Exclude...)
	}
	return newRules(o)
}

// newRules is tree.NewRules for what a user wrote.
func newRules(o tree.RuleOptions) (*tree.Rules, error) {
	rules, err := tree.NewRules(o)
	if err != nil {
		return nil, &provider.Error{Kind: provider.Usage, Err: err}
	}
	return rules, nil
}

// sandboxTree turns the listing into the snapshot of what a pull carries.
func (g *puller) sandboxTree(rules *tree.Rules) (*tree.Snapshot, error) {
	m, src := g.mapping, g.facts.snapshot()
	switch {
	case src.Root.Type == tree.Special:
		return nil, provider.New(provider.Usage, fmt.Sprintf("%q is neither a file nor a directory", m.Source), "")
	case src.Root.Type == tree.Dir && m.Kind == FileKind:
		return nil, provider.New(provider.Usage, fmt.Sprintf("%q is a directory, not a file", m.Source), "")
	case src.Root.Type != tree.Dir && m.Kind == DirectoryKind:
		return nil, provider.New(provider.Usage, fmt.Sprintf("%q is not a directory", m.Source), "")
	}
	if l := g.facts.listing; l != nil && l.Incomplete {
		src.Problems = append(src.Problems, unreadable(l.Trouble)...)
		for i := range src.Entries {
			// As a scan does of those that it cannot read.
			if e := &src.Entries[i]; e.Type == tree.Dir && e.Mode&0o500 != 0o500 {
				e.Mode |= 0o700
			}
		}
	}
	src.Leftovers = 0
	g.read = g.ignoreFiles(src, rules)
	var err error
	if g.symlinks(m) == Follow {
		src, err = g.followLinks(src, rules, g.read)
	} else {
		src, err = tree.Filter(src, rules, g.read)
	}
	if err != nil {
		return nil, err
	}
	if err := g.treatLinks(m, src); err != nil {
		return nil, err
	}
	for _, e := range src.Entries {
		if e.Type == tree.Special {
			src.Problems = append(src.Problems, tree.Problem{Path: e.Path, Err: fmt.Errorf("a %s, left out", e.Special), Skip: true})
		}
	}
	return src, g.checkLimits(src)
}

// unreadable makes problems of what find and stat complained about. What is
// gone since is none.
func unreadable(text string) []tree.Problem {
	if text == "" {
		return []tree.Problem{{Err: errors.New("the sandbox's listing is not complete, and it does not say why")}}
	}
	var problems []tree.Problem
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.Contains(line, "No such file or directory") {
			problems = append(problems, tree.Problem{Err: errors.New(line)})
		}
	}
	return problems
}

// ignoreFiles fetches the ignore files of a listing in one go, when the first
// is asked for.
func (g *puller) ignoreFiles(src *tree.Snapshot, rules *tree.Rules) func(string) ([]byte, bool, error) {
	var contents map[string][]byte
	return func(p string) ([]byte, bool, error) {
		if contents == nil {
			var err error
			if contents, err = g.readSmall(tree.IgnoreFilesIn(src, rules)); err != nil {
				return nil, false, err
			}
		}
		b, ok := contents[p]
		return b, ok, nil
	}
}

// readSmall reads small files of the sandbox.
func (g *puller) readSmall(names []string) (map[string][]byte, error) {
	contents := map[string][]byte{}
	for len(names) > 0 {
		n, size := 0, 0
		var b strings.Builder
		fmt.Fprintf(&b, "cd -P -- %s || die 81 'the directory is gone'\n", shell.Quote(g.dir))
		b.WriteString("give() { c=$(head -c " + fmt.Sprint(maxIgnoreFile) + " \"$1\" 2>/dev/null; echo .) || return 0; printf '%s\\000%s\\000' \"$1\" \"${c%.}\"; }\n")
		for n < len(names) && size < min(48<<10, g.session.MaxBody()/2) {
			word := shell.Quote("./" + names[n])
			fmt.Fprintf(&b, "give %s\n", word)
			size += len(word) + 6
			n++
		}
		var text []byte
		err := g.again(g.ctx, "ignore files", func(ctx context.Context) (err error) {
			text, err = g.session.Report(ctx, script.Script{Label: "ignore files", Body: b.String()})
			return err
		})
		if err != nil {
			return nil, err
		}
		parts := strings.Split(string(text), "\x00")
		for i := 0; i+1 < len(parts); i += 2 {
			contents[strings.TrimPrefix(parts[i], "./")] = []byte(parts[i+1])
		}
		names = names[n:]
	}
	return contents, nil
}

// checkLimits applies the limits that a scan of the host applies while it goes.
func (r *runner) checkLimits(s *tree.Snapshot) error {
	l := r.opt.Limits
	exceeded := func(flag, format string, args ...any) error {
		return &provider.Error{Kind: provider.TooLarge, Err: fmt.Errorf(format, args...), Hint: "raise " + flag + ", or exclude it"}
	}
	if l.Entries > 0 && len(s.Entries) > l.Entries {
		return exceeded("--limit-entries", "the source has %d entries, more than %d", len(s.Entries), l.Entries)
	}
	var total int64
	for _, e := range append([]tree.Entry{s.Root}, s.Entries...) {
		if l.PathBytes > 0 && len(e.Path) > l.PathBytes {
			return exceeded("--limit-path", "a path of %d bytes is longer than %d: %.80q", len(e.Path), l.PathBytes, e.Path)
		}
		if l.File > 0 && e.Size > l.File {
			return exceeded("--limit-file", "%q has %d bytes, more than %d", e.Path, e.Size, l.File)
		}
		if e.Size > maxTotal-total {
			return &provider.Error{Kind: provider.TooLarge, Err: fmt.Errorf("the sandbox lists files of more than %d bytes together", int64(maxTotal))}
		}
		if total += e.Size; l.Total > 0 && total > l.Total {
			return exceeded("--limit-total", "the files have more than %d bytes together", l.Total)
		}
	}
	return nil
}
