package transfer

import (
	"fmt"
	"slices"

	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/tree"
)

// planMerge compares entry by entry.
func (in *planInput) planMerge(p *plan) error {
	src, dst := in.src.Entries, in.dst.Entries
	m := merger{in: in, p: p, groups: hardGroups(src), resend: in.changedGroups()}
	for len(src) > 0 || len(dst) > 0 {
		c := 0
		switch {
		case len(src) == 0:
			c = 1
		case len(dst) == 0:
			c = -1
		default:
			c = tree.ComparePaths(src[0].Path, dst[0].Path)
		}
		var err error
		switch {
		case c < 0:
			err = m.both(src[0], tree.Entry{})
			src = src[1:]
		case c > 0:
			m.onlyTarget(dst[0])
			dst = dst[1:]
		default:
			err = m.both(src[0], dst[0])
			src, dst = src[1:], dst[1:]
		}
		if err != nil {
			return err
		}
	}
	if m.lost.Path != "" {
		return &provider.Error{Kind: provider.Refused, Hint: "--delete-excluded lets it go",
			Err: fmt.Errorf("%q is excluded, and would have to go for what the source has at %q", m.lost.Path, m.gone)}
	}
	if in.policy == Mirror {
		m.deletions()
		if err := in.guardDeletions(p); err != nil {
			return err
		}
	}
	m.modes()
	return nil
}

// merger holds the state of a comparison.
type merger struct {
	in     *planInput
	p      *plan
	groups map[inode]string
	resend map[inode]bool
	newDir string       // below it everything is new; "" if not in a new directory
	gone   string       // a directory of the target whose place is taken
	lost   tree.Entry   // something excluded in it
	extra  []tree.Entry // only in the target
	late   []step       // modes of directories, set when all is in them
}

func (m *merger) both(src, dst tree.Entry) error {
	if src.Type == tree.Special {
		if dst.Type != 0 {
			m.p.unchanged++ // left as it is, like everything that is not sent
		}
		return nil
	}
	src.Mode = m.in.wantMode(src)
	inNew := m.newDir != "" && tree.Within(src.Path, m.newDir)
	if !inNew {
		m.newDir = ""
	}
	switch {
	case dst.Type == 0 || inNew:
		m.in.emit(m.p, src, Create, m.groups)
		if !inNew {
			m.place(stepMove, src)
		}
	case dst.Type == src.Type && src.Type == tree.Dir:
		n := len(m.p.steps)
		m.in.attrSteps(m.p, src, dst, src.Path)
		m.late = append(m.late, m.p.steps[n:]...)
		m.p.steps = m.p.steps[:n]
	case dst.Type == src.Type && (m.in.equalContent(src, dst, src.Path) && !m.resend[inode{src.Dev, src.Ino}]):
		if !m.in.attrSteps(m.p, src, dst, src.Path) {
			m.p.unchanged++
		}
	case src.Type != tree.Dir && dst.Type != tree.Dir && dst.Type != tree.Special:
		m.in.emit(m.p, src, Change, m.groups)
		m.place(stepMove, src)
	case !m.in.force:
		return conflict(src.Path, src, dst)
	default:
		m.in.emit(m.p, src, Convert, m.groups)
		m.place(stepConvert, src)
		if dst.Type == tree.Dir {
			m.gone = dst.Path
			m.lose(dst)
		}
	}
	return nil
}

// lose takes note of what goes with a directory whose place is taken.
func (m *merger) lose(e tree.Entry) {
	if m.lost.Path == "" && m.in.protected(e.Path, e.Type == tree.Dir) {
		m.lost = e
	}
}

// place adds the step that publishes a staged entry.
func (m *merger) place(kind stepKind, e tree.Entry) {
	m.p.steps = append(m.p.steps, step{kind: kind, path: e.Path, mode: e.Mode})
	if e.Type == tree.Dir {
		m.newDir = e.Path
		if e.Mode&0o200 == 0 {
			// A directory that its owner may not write cannot be moved to
			// another parent, so it is staged writable.
			m.p.steps = append(m.p.steps, step{kind: stepChmod, path: e.Path, mode: e.Mode})
		}
	}
}

func (m *merger) onlyTarget(e tree.Entry) {
	if m.gone != "" && tree.Within(e.Path, m.gone) {
		m.lose(e)
		return
	}
	m.extra = append(m.extra, e)
}

// deletions plans to remove what only the target has, deepest first. What is
// excluded stays, and so do the directories above it.
func (m *merger) deletions() {
	keep := map[string]bool{}
	keepDir := ""
	for _, e := range m.extra {
		inKept := keepDir != "" && tree.Within(e.Path, keepDir)
		if inKept || m.in.protected(e.Path, e.Type == tree.Dir) {
			if !inKept && e.Type == tree.Dir {
				keepDir = e.Path
			}
			for p := e.Path; p != ""; p = tree.Parent(p) {
				keep[p] = true
			}
		}
	}
	for i := len(m.extra) - 1; i >= 0; i-- {
		e := m.extra[i]
		if keep[e.Path] {
			continue
		}
		kind := stepRemove
		if e.Type == tree.Dir {
			kind = stepRemoveDir
		}
		m.p.steps = append(m.p.steps, step{kind: kind, path: e.Path})
		m.p.entries = append(m.p.entries, PlannedEntry{Delete, e.Path, e.Type, e.Size})
		m.p.deleted++
	}
}

// changedGroups returns the groups of hard links of which at least one member
// has to be sent: then all are, or the links would be lost.
func (in *planInput) changedGroups() map[inode]bool {
	groups := hardGroups(in.src.Entries)
	if len(groups) == 0 {
		return nil
	}
	dst := make(map[string]tree.Entry, len(in.dst.Entries))
	for _, e := range in.dst.Entries {
		dst[e.Path] = e
	}
	changed := map[inode]bool{}
	for _, e := range in.src.Entries {
		id := inode{e.Dev, e.Ino}
		if _, ok := groups[id]; !ok || e.Type != tree.File {
			continue
		}
		d := dst[e.Path]
		if d.Type != tree.File || !in.equalContent(e, d, e.Path) {
			changed[id] = true
		}
	}
	return changed
}

// modes puts the modes of directories behind everything else, the deepest
// first: a directory that its owner may not write could not be filled. Those
// that are so already are unlocked first.
func (m *merger) modes() {
	locked := map[string]tree.Entry{}
	for _, e := range m.in.dst.Entries {
		if e.Type == tree.Dir && e.Mode&0o300 != 0o300 {
			locked[e.Path] = e
		}
	}
	final := map[string]bool{}
	for _, s := range m.late {
		final[s.path] = true
	}
	var unlock []step
	for _, s := range m.p.steps {
		switch s.kind {
		case stepMove, stepConvert, stepRemove, stepRemoveDir:
		default:
			continue
		}
		e, ok := locked[tree.Parent(s.path)]
		if !ok {
			continue
		}
		delete(locked, e.Path)
		unlock = append(unlock, step{kind: stepUnlock, path: e.Path})
		if !final[e.Path] {
			m.late = append(m.late, step{kind: stepChmod, path: e.Path, mode: e.Mode})
		}
	}
	byPath := func(a, b step) int { return tree.ComparePaths(a.path, b.path) }
	slices.SortFunc(unlock, byPath)
	slices.SortFunc(m.late, byPath)
	slices.Reverse(m.late)
	removed := map[string]bool{}
	for _, s := range m.p.steps {
		removed[s.path] = removed[s.path] || s.kind == stepRemoveDir
	}
	m.late = slices.DeleteFunc(m.late, func(s step) bool { return removed[s.path] })
	m.p.steps = slices.Concat(unlock, m.p.steps, m.late)
}

// guardDeletions applies --max-delete. It refuses to delete anything if the
// source could not be read whole, or has no content at all while the target
// has: more likely it is not mounted (owncloud/client#7109).
func (in *planInput) guardDeletions(p *plan) error {
	if in.unlisted != nil {
		return &provider.Error{Kind: provider.Refused,
			Err:  fmt.Errorf("nothing is deleted, since the target could not be listed whole: %w", in.unlisted),
			Hint: "make it readable, or run without --delete"}
	}
	if p.deleted == 0 {
		return nil
	}
	for _, problem := range in.src.Problems {
		if !problem.Skip {
			return &provider.Error{Kind: provider.Refused,
				Err:  fmt.Errorf("nothing is deleted, since the source could not be read whole: %q: %w", problem.Path, problem.Err),
				Hint: "make it readable, exclude it, or run without --delete"}
		}
	}
	if len(in.src.Entries) == 0 && !in.force {
		return &provider.Error{Kind: provider.Refused,
			Err:  fmt.Errorf("the source is empty, and --delete would remove %d entries of the target", p.deleted),
			Hint: "if that is what you want, add --force"}
	}
	if in.maxDelete >= 0 && p.deleted > in.maxDelete {
		return &provider.Error{Kind: provider.Refused,
			Err:  fmt.Errorf("--delete would remove %d entries, more than --max-delete %d", p.deleted, in.maxDelete),
			Hint: "look at --dry-run, then raise --max-delete"}
	}
	return nil
}
