package tree

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/sbsync/sbsync/pkg/provider"
)

// identity names a directory, however it was reached. Where the platform
// gives no inode numbers it is the resolved path.
type identity struct {
	dev, ino uint64
	path     string
}

func identify(e *Entry, real string) identity {
	if e.Dev == 0 && e.Ino == 0 {
		return identity{path: real}
	}
	return identity{dev: e.Dev, ino: e.Ino}
}

// ancestor is one of the directories that a directory is in, as it was
// reached; up is the one above. It finds cycles when links are followed.
type ancestor struct {
	id identity
	up *ancestor
}

// descend adds a directory to its ancestors. If it is one of them already the
// error is [ErrCycle].
func (a *ancestor) descend(e *Entry, real string) (*ancestor, error) {
	id := identify(e, real)
	for up := a; up != nil; up = up.up {
		if up.id == id {
			return nil, ErrCycle
		}
	}
	return &ancestor{id: id, up: a}, nil
}

// follow makes e, the link at path, what the link leads to, and returns where
// that is.
func (w *walker) follow(path string, e *Entry) (real string, err error) {
	if _, err := os.Stat(path); err != nil {
		if isLinkLoop(err) {
			err = ErrCycle
		}
		return "", err
	}
	real, err = filepath.EvalSymlinks(path)
	if err != nil {
		return "", err
	}
	if !w.opt.AllowExternal && !below(real, w.real) {
		return "", &provider.Error{
			Kind: provider.Confined,
			Err:  &externalLink{e.Link},
			Hint: "--allow-external-symlinks follows it",
		}
	}
	target := Entry{Path: e.Path}
	if err := statPath(real, &target); err != nil {
		return "", err
	}
	if target.Type == Symlink { // put there since
		return "", errors.New("changed during the scan")
	}
	*e = target
	return real, nil
}

// below says whether path is root or in it; both are clean and absolute.
func below(path, root string) bool {
	rel, ok := strings.CutPrefix(path, root)
	return ok && (rel == "" || os.IsPathSeparator(rel[0]) || os.IsPathSeparator(root[len(root)-1]))
}

// externalLink is [ErrExternal] with the link's text.
type externalLink struct{ target string }

func (e *externalLink) Error() string { return ErrExternal.Error() + ": " + strconv.Quote(e.target) }

func (e *externalLink) Unwrap() error { return ErrExternal }
