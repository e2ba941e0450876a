package transfer

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/sbsync/sbsync/pkg/confine"
	"github.com/sbsync/sbsync/pkg/provider"
)

// stdio as a mapping's host side means standard input or output.
const stdio = "-"

// confine checks all mappings of all operations before anything else happens,
// and returns them with clean paths. One that is refused means that the
// provider is never called.
func (r *runner) confine(ops []Operation) ([]Operation, error) {
	checked := make([]Operation, len(ops))
	for i, op := range ops {
		op.Files = append([]Mapping(nil), op.Files...)
		for k := range op.Files {
			if err := r.confineMapping(&op.Files[k]); err != nil {
				return nil, operationError(ops, i, err)
			}
		}
		if err := r.confineCommands(op); err != nil {
			return nil, operationError(ops, i, err)
		}
		checked[i] = op
	}
	return checked, nil
}

// operationError says which operation an error is about, if there are several.
func operationError(ops []Operation, i int, err error) error {
	if len(ops) < 2 {
		return err
	}
	return fmt.Errorf("operation %q: %w", ops[i].ID, err)
}

func (r *runner) confineMapping(m *Mapping) error {
	host, sandbox := &m.Source, &m.Target
	if r.dir == Pull {
		host, sandbox = sandbox, host
	}
	into := r.dir == Push && strings.HasSuffix(m.Target, "/") || r.dir == Pull && endsInSeparator(m.Target)
	if m.Kind == AnyKind && (r.dir == Pull && strings.HasSuffix(m.Source, "/") || r.dir == Push && endsInSeparator(m.Source)) {
		m.Kind = DirectoryKind // as everywhere: what ends in a slash is a directory
	}
	var err error
	roots := confine.Roots{Host: r.opt.HostRoots, Sandbox: r.opt.SandboxRoots}
	if *host != stdio {
		if len(roots.Host) == 0 {
			roots.Host = []string{*host}
		}
		if *host, err = roots.CheckHost(*host); err != nil {
			return err
		}
	}
	if len(roots.Sandbox) == 0 {
		roots.Sandbox = []string{*sandbox}
	}
	if *sandbox, err = roots.CheckSandbox(*sandbox); err != nil {
		return err
	}
	if r.dir == Pull {
		m.into = into
		return r.checkRealTarget(m)
	}
	return r.checkSource(m, into)
}

func endsInSeparator(p string) bool {
	return p != "" && os.IsPathSeparator(p[len(p)-1])
}

// checkSource looks at the source of a push: a missing one is found before the
// provider is called.
func (r *runner) checkSource(m *Mapping, into bool) error {
	if m.Source == stdio {
		if into || m.Kind == DirectoryKind {
			return provider.New(provider.Usage, "standard input is a single file and needs a target with a name", "")
		}
		m.Kind = FileKind
		return nil
	}
	info, err := os.Stat(m.Source)
	if errors.Is(err, fs.ErrNotExist) {
		if l, lerr := os.Lstat(m.Source); lerr == nil && l.Mode()&fs.ModeSymlink != 0 {
			return &provider.Error{Kind: provider.SourceMissing, Err: fmt.Errorf("%q is a link to nothing", m.Source)}
		}
		return sourceMissing(m.Source)
	}
	if err != nil {
		return &provider.Error{Kind: provider.SourceMissing, Err: err}
	}
	switch {
	case info.IsDir() && m.Kind == FileKind:
		return provider.New(provider.Usage, fmt.Sprintf("%q is a directory, not a file", m.Source), "")
	case !info.IsDir() && m.Kind == DirectoryKind:
		return provider.New(provider.Usage, fmt.Sprintf("%q is not a directory", m.Source), "")
	case !info.IsDir() && !info.Mode().IsRegular():
		return provider.New(provider.Usage, fmt.Sprintf("%q is neither a file nor a directory", m.Source), "")
	case !info.IsDir() && into:
		m.Target = path.Join(m.Target, filepath.Base(m.Source))
	}
	if m.Kind = FileKind; info.IsDir() {
		m.Kind = DirectoryKind
	}
	return r.checkReal(m)
}

// checkReal resolves the links of a source and of the declared roots: what is
// read has to lie below a root on the disk too.
func (r *runner) checkReal(m *Mapping) error {
	if len(r.opt.HostRoots) == 0 {
		return nil
	}
	real, err := filepath.EvalSymlinks(m.Source)
	if err != nil {
		return &provider.Error{Kind: provider.SourceMissing, Err: err}
	}
	return r.checkBelow(m.Source, real)
}

// checkRealTarget does the same for what a pull writes to, as far as it exists.
// A link to anything but a directory is not followed, but replaced.
func (r *runner) checkRealTarget(m *Mapping) error {
	if len(r.opt.HostRoots) == 0 || m.Target == stdio {
		return nil
	}
	at, name := filepath.Split(m.Target)
	if info, err := os.Stat(m.Target); err == nil && info.IsDir() {
		at, name = m.Target, ""
	}
	real, err := realPath(at)
	if err != nil {
		return err
	}
	return r.checkBelow(m.Target, filepath.Join(real, name))
}

// checkBelow checks that a path without links lies below a declared root.
func (r *runner) checkBelow(named, real string) error {
	var roots []string
	for _, root := range r.opt.HostRoots {
		if p, err := realPath(root); err == nil {
			roots = append(roots, p)
		}
	}
	if _, err := (confine.Roots{Host: roots}).CheckHost(real); err != nil {
		return fmt.Errorf("%q leads there: %w", named, err)
	}
	return nil
}

// realPath resolves the links of a path as far as it exists.
func realPath(p string) (string, error) {
	rest := ""
	for {
		real, err := filepath.EvalSymlinks(p)
		if err == nil || !errors.Is(err, fs.ErrNotExist) || p == filepath.Dir(p) {
			return filepath.Join(real, rest), err
		}
		p, rest = filepath.Dir(p), filepath.Join(filepath.Base(p), rest)
	}
}

// confineCommands checks the directories of an operation's commands.
func (r *runner) confineCommands(op Operation) error {
	for _, c := range op.Commands {
		if r.dir == Pull {
			return provider.New(provider.Usage, "commands run after a push only", "")
		}
		if c.Command == "" {
			return provider.New(provider.Usage, "empty command", "")
		}
		if c.Dir == "" {
			continue
		}
		var targets []string
		for _, m := range op.Files {
			targets = append(targets, m.Target)
		}
		if hasDotDot(c.Dir) {
			return &provider.Error{Kind: provider.Confined, Err: fmt.Errorf(`command directory %q has a ".." in it`, c.Dir)}
		}
		if _, err := (confine.Roots{Sandbox: targets}).CheckSandbox(c.Dir); err != nil {
			return &provider.Error{Kind: provider.Confined, Err: fmt.Errorf("command directory %q is not below a target of its operation", c.Dir)}
		}
	}
	return nil
}

func hasDotDot(p string) bool {
	for elem := range strings.SplitSeq(p, "/") {
		if elem == ".." {
			return true
		}
	}
	return false
}
