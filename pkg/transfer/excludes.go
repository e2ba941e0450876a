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
	dirs map[string]*tree.Rules // as seen from the directories that were asked for
	err  error
}

func newExcludes(rules *tree.Rules, read func(string) ([]byte, bool, error)) *excludes {
	return &excludes{rules: rules, read: read, dirs: map[string]*tree.Rules{}}
}

// excluded says whether an entry is excluded. If an ignore file cannot be read,
// everything is.
func (x *excludes) excluded(path string, isDir bool) bool {
	rules := x.enter(tree.Parent(path))
	return x.err != nil || rules.Excluded(path, isDir)
}

// enter returns the rules of a directory, which need not exist in the source.
func (x *excludes) enter(dir string) *tree.Rules {
	if rules, ok := x.dirs[dir]; ok {
		return rules
	}
	above := x.rules
	if dir != "" {
		above = x.enter(tree.Parent(dir))
	}
	rules, err := above.Enter(dir, func(name string) ([]byte, bool, error) { return x.read(join(dir, name)) })
	if err != nil && x.err == nil {
		x.err = err
	}
	x.dirs[dir] = rules
	return rules
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
