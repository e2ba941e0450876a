package tree

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sbsync/sbsync/pkg/provider"
)

// RuleOptions says what to exclude. The zero value excludes nothing: there
// are no default excludes.
type RuleOptions struct {
	// Exclude are patterns in gitignore syntax, relative to the root, as with
	// `git ls-files -x`: each is taken as it stands, so "#" begins no comment
	// and spaces count. They are stronger than every ignore file, and "!"
	// re-includes what an ignore file excludes.
	Exclude []string
	// TarExclude are the patterns of a contract mapping: exactly GNU tar's
	// --exclude. Nothing re-includes what they exclude.
	TarExclude []string
	// IgnoreFiles are names of ignore files that are looked for in every
	// directory. Where two are in one directory the later name wins. As with
	// git only regular files count, links do not.
	IgnoreFiles []string
	// Git makes the rules git's: what is carried is what `git ls-files -co
	// --exclude-standard` lists. That is .gitignore in each directory up to
	// the top of the repository that Root lies in, .git/info/exclude and
	// core.excludesFile; tracked files are carried although ignored; .git is
	// not carried, unless Exclude has "!.git", which carries it whole; nested
	// repositories and submodules are carried as empty directories, with a
	// [Problem] that says so. Directories are carried even if git would find
	// nothing in them. Outside a repository .gitignore files and
	// core.excludesFile count.
	//
	// The repository is the one that Root lies in, whatever GIT_DIR or
	// core.worktree say. A .gitignore that a sparse checkout keeps out of the
	// work tree is not known.
	//
	// If Root itself is ignored, the patterns that ignore it do not apply to
	// what is in it: what was named is carried.
	Git bool
	// Root is the directory on the host that paths are relative to. It is
	// used with Git only, and need not exist.
	Root string
}

// Rules are exclude rules as seen from one directory. They never change and
// are safe for concurrent use. A nil *Rules excludes nothing.
type Rules struct {
	set *ruleSet
	// lists are the sources that apply here, the weakest first.
	lists []*patternList
	reach reach
	// nested marks the inside of a repository of its own.
	nested bool
}

// ruleSet is what all Rules that come from one NewRules share.
type ruleSet struct {
	exclude patternList
	tar     *tarExcludes
	names   []string // of ignore files; later ones win
	repo    *gitRepo // nil without Git
	// outer are the lists from outside the root, weakest first.
	outer []*patternList
}

// reach is how far excludes let entries through.
type reach int

const (
	reachAll     reach = iota
	reachTracked       // ignored by git: only tracked files
	reachNone
)

// gitIgnoreName is the name of git's per-directory file.
const gitIgnoreName = ".gitignore"

// NewRules makes the rules for a tree, as seen from above its root: call
// [Rules.Enter] with "" for the root first. [Scan] and [Filter] do that
// themselves.
//
// A pattern of Exclude that can never match gives an error of kind
// [provider.Usage] that names it. With Git, a repository that can't be read
// is an error too, since guessing would send what was to stay.
func NewRules(opt RuleOptions) (*Rules, error) {
	set := &ruleSet{tar: compileTarExcludes(opt.TarExclude), names: opt.IgnoreFiles}
	if opt.Git {
		repo, err := openGitRepo(opt.Root)
		if err != nil {
			return nil, fmt.Errorf("read git's rules for %q: %w", opt.Root, err)
		}
		set.repo = repo
		set.outer = repo.outerLists()
		if !slices.Contains(set.names, gitIgnoreName) {
			set.names = append([]string{gitIgnoreName}, set.names...)
		}
	}
	set.exclude.base = len(set.prefix())
	for _, text := range opt.Exclude {
		p, err := compileExclude(text, set.fold())
		if err != nil {
			return nil, err
		}
		set.exclude.patterns = append(set.exclude.patterns, p)
	}
	return &Rules{set: set, lists: set.outer}, nil
}

func compileExclude(text string, fold bool) (pattern, error) {
	p, err := parsePattern(text, fold)
	if err == nil && strings.Contains(text, "\x00") {
		err = errNUL
	}
	if err != nil {
		return p, &provider.Error{Kind: provider.Usage, Err: fmt.Errorf("exclude pattern %q: %w", text, err)}
	}
	return p, nil
}

// prefix is what to put before a path to have it relative to the top of the
// repository.
func (s *ruleSet) prefix() string {
	if s.repo == nil {
		return ""
	}
	return s.repo.prefix
}

func (s *ruleSet) fold() bool { return s.repo != nil && s.repo.ignoreCase }

// Excluded says whether the rules exclude an entry of this directory. path is
// relative to the root; isDir says whether it is a directory, which a link to
// one is not.
func (r *Rules) Excluded(path string, isDir bool) bool {
	if r == nil {
		return false
	}
	switch r.reachOf(path, isDir) {
	case reachAll:
		return false
	case reachTracked:
		return !r.set.repo.tracks(r.set.prefix()+path, isDir)
	}
	return true
}

// reachOf tells how far the rules of this directory let an entry through.
func (r *Rules) reachOf(path string, isDir bool) reach {
	if r.reach == reachNone || r.set.tar.excluded(path) {
		return reachNone
	}
	full, name := r.set.prefix()+path, Base(path)
	if r.set.fold() {
		full, name = lowerString(full), lowerString(name)
	}
	if p := r.set.exclude.last(full, name, isDir); p != nil {
		if !p.negated {
			return reachNone
		}
		return r.reach
	}
	if name == gitDirName && r.set.repo != nil {
		return reachNone
	}
	return r.listsReach(full, name, isDir)
}

// listsReach is reachOf for the ignore files. Git's own files do not touch
// what is tracked, so after one of them excluded, the others are asked still.
func (r *Rules) listsReach(full, name string, isDir bool) reach {
	result := r.reach
	for i := len(r.lists) - 1; i >= 0; i-- {
		list := r.lists[i]
		if list.git && result == reachTracked {
			continue
		}
		p := list.last(full, name, isDir)
		switch {
		case p == nil:
		case p.negated:
			return result
		case !list.git:
			return reachNone
		default:
			result = reachTracked
		}
	}
	return result
}

// Enter descends into a directory: dir is its path, "" the root, and read
// gives the content of a file in it, or false if there is no such regular
// file. Besides ignore files, Git rules ask for ".git" and ".git/HEAD" to
// recognise a repository. An error of read is returned as it is.
func (r *Rules) Enter(dir string, read func(name string) ([]byte, bool, error)) (*Rules, error) {
	if r == nil {
		return nil, nil
	}
	child := &Rules{set: r.set, lists: r.lists, reach: r.reach}
	if dir != "" {
		if child.reach = r.reachOf(dir, true); child.reach == reachNone {
			return child, nil
		}
	}
	if r.set.repo != nil {
		if r.gitDir(dir) {
			child.lists = nil
			return child, nil
		}
		nested, err := r.set.nestedRepo(dir, read)
		if err != nil {
			return nil, err
		}
		if nested {
			child.reach, child.nested = reachNone, true
			return child, nil
		}
	}
	return child, child.readIgnoreFiles(dir, read)
}

// gitDir says whether dir is a .git that is carried, or in one. Ignore rules
// are not for what is in there.
func (r *Rules) gitDir(dir string) bool {
	return Base(dir) == gitDirName || strings.HasPrefix(dir, gitDirName+"/") || strings.Contains(dir, "/"+gitDirName+"/")
}

// readIgnoreFiles adds the ignore files of dir to rules that no one else has
// yet.
func (r *Rules) readIgnoreFiles(dir string, read func(name string) ([]byte, bool, error)) error {
	base := len(r.set.prefix())
	if dir != "" {
		base += len(dir) + 1
	}
	lists := r.lists[:len(r.lists):len(r.lists)]
	for _, name := range r.set.names {
		data, ok, err := read(name)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		patterns, err := parseIgnoreFile(data, r.set.fold())
		if err != nil {
			return fmt.Errorf("read %q: %w", join(dir, name), err)
		}
		if len(patterns) > 0 {
			lists = append(lists, &patternList{patterns: patterns, base: base, git: r.set.repo != nil && name == gitIgnoreName})
		}
	}
	r.lists = lists
	return nil
}

// join puts a name below a directory of a tree.
func join(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}
