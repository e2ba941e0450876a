package tree

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const gitDirName = ".git"

// gitRepo is what git knows about the surroundings of a root. The zero value
// stands for a root outside any repository.
type gitRepo struct {
	worktree string // top of the work tree, links resolved; "" outside a repository
	// prefix is the root's path below worktree, with "/" at its end, or "".
	prefix     string
	ignoreCase bool
	index      *gitIndex
	// global are the lists of core.excludesFile and .git/info/exclude, and
	// parents those of the directories above the root.
	global, parents []*patternList
}

// openGitRepo finds the repository that root lies in and reads its rules.
func openGitRepo(root string) (*gitRepo, error) {
	real, err := resolveExisting(root)
	if err != nil {
		return nil, err
	}
	place, err := findGitPlace(real)
	if err != nil {
		return nil, err
	}
	config, err := readGitConfig(place)
	if err != nil {
		return nil, err
	}
	repo := &gitRepo{worktree: place.worktree, ignoreCase: config.ignoreCase, index: &gitIndex{}}
	if repo.global, err = readGlobalIgnores(place, config); err != nil {
		return nil, err
	}
	if place.worktree == "" {
		return repo, nil
	}
	if rel, err := filepath.Rel(place.worktree, real); err != nil {
		return nil, err
	} else if rel != "." {
		repo.prefix = filepath.ToSlash(rel) + "/"
	}
	if repo.index, err = readGitIndex(place.gitDir, config.hashSize, config.ignoreCase); err != nil {
		return nil, err
	}
	repo.parents, err = repo.readParents()
	return repo, err
}

// resolveExisting makes path absolute and resolves links in the part of it
// that exists.
func resolveExisting(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	for rest := ""; ; {
		real, err := filepath.EvalSymlinks(path)
		if err == nil {
			return filepath.Join(real, rest), nil
		}
		parent := filepath.Dir(path)
		if !errors.Is(err, fs.ErrNotExist) || parent == path {
			return "", err
		}
		rest = filepath.Join(filepath.Base(path), rest)
		path = parent
	}
}

// gitPlace is where a repository's parts are. All are "" without one.
type gitPlace struct {
	worktree  string
	gitDir    string // of this work tree: HEAD, index
	commonDir string // shared by all work trees: config, info
}

// findGitPlace looks for a repository from dir upwards, as git does: the first
// directory with a valid .git is the top of the work tree. Inside a bare
// repository or a .git directory there is no work tree.
func findGitPlace(dir string) (gitPlace, error) {
	for {
		gitDir, err := resolveGitDir(dir)
		if err != nil {
			return gitPlace{}, err
		}
		if gitDir != "" {
			return gitPlace{worktree: dir, gitDir: gitDir, commonDir: gitCommonDir(gitDir)}, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir || isGitDir(dir) {
			return gitPlace{}, nil
		}
		dir = parent
	}
}

// resolveGitDir returns the git directory of a work tree whose top is dir, or
// "" if dir is not one. A .git file (of a submodule or a linked work tree)
// that leads nowhere is an error, as with git.
func resolveGitDir(dir string) (string, error) {
	path := filepath.Join(dir, gitDirName)
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return "", nil // not there, or not for us to see
	case info.IsDir():
		if isGitDir(path) {
			return path, nil
		}
		return "", nil
	case !info.Mode().IsRegular():
		return "", nil
	}
	data, err := readRegular(path, maxGitFile)
	if err != nil {
		return "", err
	}
	target, ok := gitFileTarget(data)
	if !ok {
		return "", fmt.Errorf("read %q: invalid gitfile format", path)
	}
	if target = filepath.FromSlash(target); !filepath.IsAbs(target) {
		target = filepath.Join(dir, target)
	}
	if !isGitDir(target) {
		return "", fmt.Errorf("read %q: not a git repository: %q", path, target)
	}
	return target, nil
}

// maxGitFile bounds a .git file, HEAD and commondir, in bytes; git's own limit
// for a .git file is 1 MiB.
const maxGitFile = 1 << 20

// gitFileTarget parses a .git file.
func gitFileTarget(data []byte) (string, bool) {
	target, ok := strings.CutPrefix(string(data), "gitdir: ")
	target = strings.TrimRight(target, "\r\n")
	return target, ok && target != ""
}

// isGitDir says whether path is a git directory: git's three marks of one.
func isGitDir(path string) bool {
	if !validHead(filepath.Join(path, "HEAD")) {
		return false
	}
	common := gitCommonDir(path)
	return isDir(filepath.Join(common, "objects")) && isDir(filepath.Join(common, "refs"))
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// validHead says whether path can be a HEAD: a reference, or a commit's name.
func validHead(path string) bool {
	if target, err := os.Readlink(path); err == nil {
		return strings.HasPrefix(target, "refs/")
	}
	data, err := readRegular(path, maxGitFile)
	return err == nil && isHead(data)
}

func isHead(data []byte) bool {
	if ref, ok := bytes.CutPrefix(data, []byte("ref:")); ok {
		return bytes.HasPrefix(bytes.TrimLeft(ref, " \t\n\v\f\r"), []byte("refs/"))
	}
	const sha1Hex = 40 // a SHA-256 name is longer and passes too
	if len(data) < sha1Hex {
		return false
	}
	for _, c := range data[:sha1Hex] {
		if !(c >= '0' && c <= '9' || lower(c) >= 'a' && lower(c) <= 'f') {
			return false
		}
	}
	return true
}

// gitCommonDir returns the directory that gitDir shares with the repository's
// other work trees.
func gitCommonDir(gitDir string) string {
	data, err := readRegular(filepath.Join(gitDir, "commondir"), maxGitFile)
	if err != nil {
		return gitDir
	}
	common := filepath.FromSlash(strings.TrimRight(string(data), "\r\n"))
	if filepath.IsAbs(common) {
		return common
	}
	return filepath.Join(gitDir, common)
}

// nestedRepo says whether a directory below the root is a repository of its
// own, which git does not look into: a submodule, or one that git would call
// untracked. A directory with tracked files is none even if it has a .git.
func (s *ruleSet) nestedRepo(dir string, read func(name string) ([]byte, bool, error)) (bool, error) {
	if dir == "" {
		return false, nil
	}
	full := s.repo.prefix + dir
	if s.repo.index.isSubmodule(full) {
		return true, nil
	}
	if s.repo.index.hasBelow(full) {
		return false, nil
	}
	data, ok, err := read(gitDirName)
	if err != nil {
		return false, err
	}
	if ok {
		_, ok = gitFileTarget(data)
		return ok, nil
	}
	data, ok, err = read(gitDirName + "/HEAD")
	return ok && isHead(data), err
}

// tracks says whether the index has path, as a file or as a directory.
func (g *gitRepo) tracks(path string, isDir bool) bool {
	if isDir {
		return g.index.hasBelow(path) || g.index.isSubmodule(path)
	}
	return g.index.hasFile(path)
}
