package transfer

import (
	"errors"
	"io"
	"io/fs"

	"github.com/sbsync/sbsync/pkg/confine"
	"github.com/sbsync/sbsync/pkg/tree"
)

// excludes judge entries that only the target has by the rules of the source,
// nested ignore files included, whichever side the source is on.
type excludes struct {
	rules *tree.Rules
	// read gives the content of a file of the source.
	read func(path string) ([]byte, bool, error)
	dirs map[string]entered // that were asked for
}

// entered is what is known of a directory's rules: nothing, if its ignore file
// or one above cannot be read.
type entered struct {
	rules *tree.Rules
	err   error
}

func newExcludes(rules *tree.Rules, read func(string) ([]byte, bool, error)) *excludes {
	return &excludes{rules: rules, read: read, dirs: map[string]entered{}}
}

// excluded says whether an entry is excluded. Below a directory whose ignore
// file cannot be read everything is.
func (x *excludes) excluded(path string, isDir bool) bool {
	at := x.enter(tree.Parent(path))
	return at.err != nil || at.rules.Excluded(path, isDir)
}

// enter returns the rules of a directory, which need not exist in the source.
func (x *excludes) enter(dir string) entered {
	at, ok := x.dirs[dir]
	if ok {
		return at
	}
	at.rules = x.rules
	if dir != "" {
		at = x.enter(tree.Parent(dir))
	}
	if at.err == nil {
		at.rules, at.err = at.rules.Enter(dir, func(name string) ([]byte, bool, error) { return x.read(join(dir, name)) })
	}
	x.dirs[dir] = at
	return at
}

// hostFile returns a function that reads small files of a push's source. What
// is no regular file there, as for the scan, is not there.
func hostFile(src *confine.Source) func(path string) ([]byte, bool, error) {
	return func(path string) ([]byte, bool, error) {
		f, _, err := src.Open(path, false)
		if errors.Is(err, fs.ErrPermission) {
			return nil, false, err
		}
		if err != nil {
			return nil, false, nil
		}
		defer f.Close()
		b, err := io.ReadAll(io.LimitReader(f, maxIgnoreFile))
		return b, err == nil, err
	}
}
