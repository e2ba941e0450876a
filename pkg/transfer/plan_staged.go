package transfer

import (
	"fmt"
	"strings"

	"github.com/sbsync/sbsync/pkg/tree"
)

// stagedParents returns the directories that have to be staged so that the
// entries of send can be, but that exist in the target already.
func (p *plan) stagedParents() []string {
	if p.newRoot {
		return nil
	}
	have := map[string]bool{"": true}
	for _, e := range p.send {
		if e.Type == tree.Dir {
			have[e.Path] = true
		}
	}
	var missing []string
	for _, e := range p.send {
		var chain []string
		for d := tree.Parent(e.Path); !have[d]; d = tree.Parent(d) {
			have[d] = true
			chain = append(chain, d)
		}
		for i := len(chain) - 1; i >= 0; i-- {
			missing = append(missing, chain[i])
		}
	}
	return missing
}

// stagedMode is the mode that a directory has in the staged tree: one that is
// moved itself stays writable for its owner until it is in its place, since a
// directory that may not be written cannot be moved to another parent.
func (p *plan) stagedMode(e tree.Entry) uint32 {
	if p.newRoot && e.Path == "" || p.moved()[e.Path] {
		return e.Mode | 0o200
	}
	return e.Mode
}

// moved are the entries that are put in their place themselves, and not as part
// of a directory.
func (p *plan) moved() map[string]bool {
	if p.movedPaths == nil {
		p.movedPaths = map[string]bool{}
		for _, s := range p.steps {
			if s.kind == stepMove || s.kind == stepConvert {
				p.movedPaths[s.path] = true
			}
		}
	}
	return p.movedPaths
}

// describe names a few paths for a message.
func describe(paths []string) string {
	const most = 3
	var b strings.Builder
	for i, p := range paths {
		if i == most {
			fmt.Fprintf(&b, " and %d more", len(paths)-most)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%q", p)
	}
	return b.String()
}
