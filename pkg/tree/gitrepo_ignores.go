package tree

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// maxIgnoreFile bounds an ignore file, in bytes. The biggest collections of
// ignore patterns are below 100 KiB.
const maxIgnoreFile = 1 << 20

// readGlobalIgnores reads core.excludesFile and .git/info/exclude; the latter
// is the stronger.
func readGlobalIgnores(place gitPlace, config *gitConfig) ([]*patternList, error) {
	var lists []*patternList
	paths := []string{config.excludesPath()}
	if place.commonDir != "" {
		paths = append(paths, filepath.Join(place.commonDir, "info", "exclude"))
	}
	for _, path := range paths {
		if path == "" {
			continue
		}
		if !filepath.IsAbs(path) {
			path = filepath.Join(place.worktree, path)
		}
		list, err := readIgnoreList(path, config.ignoreCase)
		if err != nil {
			return nil, err
		}
		if list != nil {
			lists = append(lists, list)
		}
	}
	return lists, nil
}

// readParents reads .gitignore of every directory from the top of the work
// tree down to the root's parent. Links do not count, as with git.
func (g *gitRepo) readParents() ([]*patternList, error) {
	var lists []*patternList
	for _, dir := range g.ancestors() {
		path := filepath.Join(g.worktree, filepath.FromSlash(dir), gitIgnoreName)
		if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
			continue
		}
		list, err := readIgnoreList(path, g.ignoreCase)
		if err != nil {
			return nil, err
		}
		if list == nil {
			continue
		}
		if dir != "" {
			list.base = len(dir) + 1
		}
		lists = append(lists, list)
	}
	return lists, nil
}

// ancestors returns the directories above the root within the work tree, the
// top "" first.
func (g *gitRepo) ancestors() []string {
	var dirs []string
	root := strings.TrimSuffix(g.prefix, "/")
	for dir := root; dir != ""; {
		dir = Parent(dir)
		dirs = append([]string{dir}, dirs...)
	}
	return dirs
}

// readIgnoreList reads one ignore file; nil if it is missing or says nothing.
func readIgnoreList(path string, fold bool) (*patternList, error) {
	data, err := readRegular(path, maxIgnoreFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	patterns, err := parseIgnoreFile(data, fold)
	if err != nil {
		return nil, fmt.Errorf("read %q: %w", path, err)
	}
	if len(patterns) == 0 {
		return nil, nil
	}
	return &patternList{patterns: patterns, git: true}, nil
}

// readRegular reads a file of at most limit bytes. Anything but a regular file
// is an error, and a FIFO does not block it. The null device, the usual way to
// say "none", reads as empty.
func readRegular(path string, limit int64) ([]byte, error) {
	if path == os.DevNull {
		return nil, nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("read %q: not a regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readLimited(f, path, limit)
}

// readLimited reads all of r, which is called path in errors.
func readLimited(r io.Reader, path string, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("read %q: more than %d bytes", path, limit)
	}
	return data, nil
}

// outerLists returns the lists from outside the root, the weakest first. If
// they ignore the root itself, or a directory above it, the patterns that do
// so are left out: what the user named is carried.
func (g *gitRepo) outerLists() []*patternList {
	lists := append(g.global[:len(g.global):len(g.global)], g.parents...)
	chain := g.chain()
	if !ignoresAny(lists, chain) {
		return lists
	}
	kept := make([]*patternList, len(lists))
	for i, list := range lists {
		l := &patternList{base: list.base, git: list.git}
		for _, p := range list.patterns {
			if p.negated || !matchesAny(&p, list.base, chain) {
				l.patterns = append(l.patterns, p)
			}
		}
		kept[i] = l
	}
	return kept
}

// chain returns the root's path below the work tree and those of its parents,
// folded if git ignores case, the topmost first.
func (g *gitRepo) chain() []string {
	root := strings.TrimSuffix(g.prefix, "/")
	if g.ignoreCase {
		root = lowerString(root)
	}
	var chain []string
	for p := root; p != ""; p = Parent(p) {
		chain = append([]string{p}, chain...)
	}
	return chain
}

func ignoresAny(lists []*patternList, chain []string) bool {
	for _, dir := range chain {
		for i := len(lists) - 1; i >= 0; i-- {
			if len(dir) <= lists[i].base {
				continue // the list belongs to dir or to something below it
			}
			if p := lists[i].last(dir, Base(dir), true); p != nil {
				if !p.negated {
					return true
				}
				break
			}
		}
	}
	return false
}

func matchesAny(p *pattern, base int, chain []string) bool {
	for _, dir := range chain {
		if len(dir) > base && p.matches(dir[base:], Base(dir), true) {
			return true
		}
	}
	return false
}
