package transfer

import (
	"path"
	"strings"

	"github.com/sbsync/sbsync/pkg/script"
	"github.com/sbsync/sbsync/pkg/tree"
)

// place is where things go in the sandbox.
type place struct {
	target    string // physical path of the target
	base      string // existing directory in which the staging directory is made
	inside    bool   // base is the target itself
	replace   bool   // something is there and is swapped for the staged tree
	directory bool   // a directory is there
	word      string // random part of the staging directory's name
}

// newPlace decides where to stage: inside an existing directory that is merged
// into or cannot be moved itself, otherwise beside the target, always on the
// target's file system.
func newPlace(q question, f *facts, p *plan) place {
	pl := place{word: script.Word(), directory: f.kind == 'd'}
	switch {
	case f.kind == 'd' && (!p.newRoot || f.fixed && p.root.Type == tree.Dir):
		pl.target, pl.base, pl.inside, pl.replace = f.dir, f.dir, true, p.newRoot
	case f.kind == 'd':
		pl.target, pl.base, pl.replace = f.dir, path.Dir(f.dir), true
	case f.kind == '-':
		// The physical directory is the deepest one that exists.
		rest := strings.TrimPrefix(q.path, existing(q.path, f))
		pl.target, pl.base = path.Join(f.dir, rest), f.dir
	default:
		pl.target, pl.base, pl.replace = path.Join(f.dir, path.Base(q.path)), f.dir, true
	}
	return pl
}

// existing returns the part of a missing path that exists: inspect climbed up
// to it and reported how many elements are below.
func existing(p string, f *facts) string {
	for range f.missing {
		p = path.Dir(p)
	}
	return p
}

// stage is the staging directory.
func (pl place) stage() string { return path.Join(pl.base, tree.ScratchPrefix+pl.word) }

// in names a path below the target.
func (pl place) in(rel string) string { return path.Join(pl.target, rel) }
