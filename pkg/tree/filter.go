package tree

import (
	"slices"
	"strings"
)

// Filter applies rules to a snapshot that was taken without them, a sandbox's
// say, and returns what [Scan] with these rules would have returned for that
// tree: so a pull leaves out exactly what a push would. The snapshot given is
// not changed.
//
// read gives the content of a file of the snapshot; it is asked for the paths
// that [IgnoreFilesIn] lists, and may say false for one that is gone. Its
// errors, and ignore files that can't be parsed, end Filter: guessing would
// carry what was to stay.
func Filter(s *Snapshot, rules *Rules, read func(path string) ([]byte, bool, error)) (*Snapshot, error) {
	if rules == nil {
		return s, nil
	}
	f := filter{
		in: s, out: *s, read: read,
		readable: map[string]bool{}, dropped: map[string]bool{}, troubled: map[string]*Rules{},
	}
	for _, path := range IgnoreFilesIn(s, rules) {
		f.readable[path] = true
	}
	for _, p := range s.Problems {
		f.troubled[Parent(p.Path)] = nil
	}
	f.out.Entries, f.out.Problems = make([]Entry, 0, len(s.Entries)), nil
	if err := f.enter("", rules); err != nil {
		return nil, err
	}
	for i := range s.Entries {
		if err := f.entry(&s.Entries[i]); err != nil {
			return nil, err
		}
	}
	f.problems()
	return &f.out, nil
}

// filter is the state of one Filter.
type filter struct {
	in       *Snapshot
	out      Snapshot
	read     func(path string) ([]byte, bool, error)
	readable map[string]bool // ignore files
	// stack are the directories that the current entry is in, the root first.
	stack   []filterDir
	dropped map[string]bool // entries that are excluded
	nested  []Problem
	// troubled are the directories with problems right in them.
	troubled map[string]*Rules
}

type filterDir struct {
	path  string
	rules *Rules
}

// enter pushes a directory.
func (f *filter) enter(dir string, above *Rules) error {
	rules, err := above.Enter(dir, func(name string) ([]byte, bool, error) {
		path := join(dir, name)
		if !f.readable[path] {
			return nil, false, nil
		}
		return f.read(path)
	})
	if err != nil {
		return err
	}
	if _, ok := f.troubled[dir]; ok {
		f.troubled[dir] = rules
	}
	f.stack = append(f.stack, filterDir{dir, rules})
	return nil
}

// entry decides about one entry.
func (f *filter) entry(e *Entry) error {
	for !Within(e.Path, f.top().path) {
		f.stack = f.stack[:len(f.stack)-1]
	}
	top := f.top()
	if top.rules == nil {
		return nil // below an excluded directory: neither carried nor counted
	}
	if top.rules.nested {
		f.skipNested(top.path)
		return nil
	}
	if top.rules.Excluded(e.Path, e.Type == Dir) {
		f.out.Excluded++
		f.dropped[e.Path] = true
		if e.Type == Dir {
			f.stack = append(f.stack, filterDir{path: e.Path})
		}
		return nil
	}
	f.out.Entries = append(f.out.Entries, *e)
	if e.Type == Dir {
		return f.enter(e.Path, top.rules)
	}
	return nil
}

// skipNested notes, once, that what is in a nested repository is left out.
func (f *filter) skipNested(dir string) {
	if n := len(f.nested); n == 0 || f.nested[n-1].Path != dir {
		f.nested = append(f.nested, Problem{Path: dir, Err: ErrNested, Skip: true})
	}
}

func (f *filter) top() filterDir { return f.stack[len(f.stack)-1] }

// problems keeps the problems of what is carried.
func (f *filter) problems() {
	for _, p := range f.in.Problems {
		if !f.isDropped(p.Path) {
			f.out.Problems = append(f.out.Problems, p)
		}
	}
	f.out.Problems = append(f.out.Problems, f.nested...)
	slices.SortStableFunc(f.out.Problems, func(a, b Problem) int { return ComparePaths(a.Path, b.Path) })
}

// isDropped says whether path or something above it is excluded. What vanished
// while it was listed has a problem but no entry, and is taken for a file.
func (f *filter) isDropped(path string) bool {
	for p := path; p != ""; p = Parent(p) {
		if f.dropped[p] {
			return true
		}
	}
	rules := f.troubled[Parent(path)]
	return path != "" && rules != nil && !f.in.has(path) && rules.Excluded(path, false)
}

// has says whether the snapshot has an entry at path.
func (s *Snapshot) has(path string) bool {
	_, ok := slices.BinarySearchFunc(s.Entries, path, func(e Entry, p string) int { return ComparePaths(e.Path, p) })
	return ok
}

// IgnoreFilesIn lists the files of a snapshot whose content [Filter] will ask
// for, in path order, so that they can be fetched in one go: ignore files, and
// with Git rules the marks of nested repositories. Those below a directory
// that --exclude excludes are left out.
func IgnoreFilesIn(s *Snapshot, rules *Rules) []string {
	if rules == nil {
		return nil
	}
	var paths []string
	skip := ""
	for i := range s.Entries {
		e := &s.Entries[i]
		if skip != "" && Within(e.Path, skip) {
			continue
		}
		switch {
		case e.Type == Dir && rules.fixedOut(e.Path):
			skip = e.Path
		case e.Type == File && rules.wants(e.Path):
			paths = append(paths, e.Path)
		}
	}
	return paths
}

// fixedOut says whether a directory is excluded whatever ignore files say.
func (r *Rules) fixedOut(dir string) bool {
	if r.set.tar.excluded(dir) {
		return true
	}
	full, name := r.set.prefix()+dir, Base(dir)
	if r.set.fold() {
		full, name = lowerString(full), lowerString(name)
	}
	p := r.set.exclude.last(full, name, true)
	return p != nil && !p.negated
}

// wants says whether the content of a file matters to the rules.
func (r *Rules) wants(path string) bool {
	dir, isHead := strings.CutSuffix(path, "/"+gitDirName+"/HEAD")
	if r.set.repo != nil && isHead {
		return !r.gitDir(dir)
	}
	if r.gitDir(Parent(path)) && r.set.repo != nil {
		return false
	}
	if Base(path) == gitDirName && r.set.repo != nil {
		return path != gitDirName
	}
	return slices.Contains(r.set.names, Base(path))
}
