package transfer

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sbsync/sbsync/pkg/provider"
	"github.com/sbsync/sbsync/pkg/tree"
)

// planInput is everything that a plan depends on.
type planInput struct {
	src, dst *tree.Snapshot // dst.Root.Type is 0 if nothing is there
	policy   Policy
	force    bool
	setID    bool
	mode     *uint32 // for every file
	checksum bool
	// wholeSeconds says that the sandbox's tools keep no fractions of seconds.
	wholeSeconds bool
	// same says of files of equal size whether their contents are equal, with
	// checksum only.
	same map[string]bool
	// protected says whether an entry that only the target has is excluded, and
	// so must stay.
	protected func(path string, isDir bool) bool
	maxDelete int
}

// plan is what a transfer will do.
type plan struct {
	send    []tree.Entry      // in order; directories among them are new
	hard    map[string]string // hard link -> the earlier entry of send it is one with
	steps   []step            // how to publish what was sent, in order
	newRoot bool              // the staged tree becomes the target as a whole
	root    tree.Entry        // the source's root, modes as they will be
	entries []PlannedEntry

	movedPaths map[string]bool // see moved

	files, links, dirs, changed, deleted, unchanged int
	bytes                                           int64
}

// stepKind says what a step does in the target.
type stepKind byte

const (
	stepUnlock  stepKind = iota // a directory whose owner may not write it will be changed
	stepMove                    // a staged entry takes its place, whatever non-directory is there
	stepConvert                 // the same, but what is there goes away first
	stepChmod
	stepTouch
	stepRemove    // not a directory
	stepRemoveDir // an empty directory
)

// step is one change of the target.
type step struct {
	kind stepKind
	path string
	mode uint32
	time tree.Time
}

// empty says that nothing needs to be done.
func (p *plan) empty() bool { return !p.newRoot && len(p.send) == 0 && len(p.steps) == 0 }

// makePlan compares two trees. It is a pure function; errors are refusals, and
// mean that nothing at all should be done.
func makePlan(in planInput) (*plan, error) {
	p := &plan{hard: map[string]string{}, root: in.src.Root}
	p.root.Mode = in.wantMode(in.src.Root)
	if in.src.Root.Type != tree.Dir {
		return p, in.planSingle(p)
	}
	switch {
	case in.dst.Root.Type == 0:
		p.newRoot = true
	case in.dst.Root.Type != tree.Dir:
		if !in.force {
			return nil, conflict("", in.src.Root, in.dst.Root)
		}
		p.newRoot = true
	case in.policy == Replace:
		p.newRoot = true
	}
	if p.newRoot {
		return p, in.planNew(p)
	}
	return p, in.planMerge(p)
}

// wantMode is the mode that an entry of the source will have in the target.
func (in *planInput) wantMode(e tree.Entry) uint32 {
	if e.Type == tree.File && in.mode != nil {
		return *in.mode
	}
	if in.setID {
		return e.Mode
	}
	return e.Mode & tree.ModePerm
}

func (in *planInput) planSingle(p *plan) error {
	src, dst := p.root, in.dst.Root
	action := Create
	switch dst.Type {
	case 0:
	case tree.Dir, tree.Special:
		if !in.force {
			return conflict("", src, dst)
		}
		action = Convert
	case src.Type:
		if in.policy != Replace && in.equalContent(src, dst, "") {
			if !in.attrSteps(p, src, dst, "") {
				p.unchanged++
			}
			return nil
		}
		action = Change
	default:
		action = Change
	}
	p.newRoot = true
	p.entries = append(p.entries, PlannedEntry{action, "", src.Type, src.Size})
	p.count(src)
	return nil
}

// count adds an entry that will be sent to the totals.
func (p *plan) count(e tree.Entry) {
	switch e.Type {
	case tree.File:
		p.files++
		if _, isLink := p.hard[e.Path]; !isLink {
			p.bytes += e.Size
		}
	case tree.Symlink:
		p.links++
	case tree.Dir:
		p.dirs++
	}
}

// planNew sends everything.
func (in *planInput) planNew(p *plan) error {
	old := map[string]tree.Type{}
	for _, e := range in.dst.Entries {
		old[e.Path] = e.Type
	}
	if in.dst.Root.Type == 0 {
		p.entries = append(p.entries, PlannedEntry{Create, "", tree.Dir, 0})
	}
	groups := hardGroups(in.src.Entries)
	for _, e := range in.src.Entries {
		if e.Type == tree.Special {
			continue
		}
		e.Mode = in.wantMode(e)
		action := Create
		if _, ok := old[e.Path]; ok {
			action = Change
			delete(old, e.Path)
		}
		in.emit(p, e, action, groups)
	}
	for _, e := range in.dst.Entries {
		if _, gone := old[e.Path]; gone {
			p.entries = append(p.entries, PlannedEntry{Delete, e.Path, e.Type, e.Size})
			p.deleted++
		}
	}
	return nil
}

// emit adds an entry to what is sent.
func (in *planInput) emit(p *plan, e tree.Entry, action Action, groups map[inode]string) {
	if e.Type == tree.File && e.Nlink > 1 {
		if first, ok := groups[inode{e.Dev, e.Ino}]; ok {
			if first == "" || first == e.Path {
				groups[inode{e.Dev, e.Ino}] = e.Path
			} else {
				p.hard[e.Path] = first
			}
		}
	}
	p.send = append(p.send, e)
	p.count(e)
	p.entries = append(p.entries, PlannedEntry{action, e.Path, e.Type, e.Size})
}

type inode struct{ dev, ino uint64 }

// hardGroups returns the inodes that at least two files of the tree share.
func hardGroups(entries []tree.Entry) map[inode]string {
	n := map[inode]int{}
	for _, e := range entries {
		if e.Type == tree.File && e.Nlink > 1 && e.Ino != 0 {
			n[inode{e.Dev, e.Ino}]++
		}
	}
	groups := map[inode]string{}
	for id, count := range n {
		if count > 1 {
			groups[id] = ""
		}
	}
	return groups
}

// equalContent says whether two entries of one type need no new content.
func (in *planInput) equalContent(src, dst tree.Entry, path string) bool {
	switch src.Type {
	case tree.Symlink:
		return src.Link == dst.Link
	case tree.File:
		if src.Size != dst.Size {
			return false
		}
		if in.checksum {
			return in.same[path]
		}
		return in.sameTime(src.Time, dst.Time)
	}
	return true
}

// sameTime compares at the finest precision that both sides keep. Where a
// sandbox's tools cut times to whole seconds, that is what one without a
// fraction may be; elsewhere it is a time like any other.
func (in *planInput) sameTime(a, b tree.Time) bool {
	return a.Sec == b.Sec && (a.Nsec == b.Nsec || in.wholeSeconds && (a.Nsec == 0 || b.Nsec == 0))
}

// attrSteps adds the steps that give an unchanged entry its mode and time, and
// says whether there are any.
func (in *planInput) attrSteps(p *plan, src, dst tree.Entry, path string) bool {
	if src.Type == tree.Symlink {
		return false
	}
	n := len(p.steps)
	mask := uint32(tree.ModePerm)
	if in.setID && src.Type == tree.File {
		mask |= tree.ModeSpecial
	}
	if src.Mode&mask != dst.Mode&mask {
		p.steps = append(p.steps, step{kind: stepChmod, path: path, mode: src.Mode})
	}
	if src.Type == tree.File && !in.sameTime(src.Time, dst.Time) {
		p.steps = append(p.steps, step{kind: stepTouch, path: path, time: src.Time})
	}
	if len(p.steps) == n {
		return false
	}
	p.changed++
	p.entries = append(p.entries, PlannedEntry{Attrs, path, src.Type, 0})
	return true
}

// conflict is the refusal to put a file in a directory's place or the reverse.
// The text is the same for every provider.
func conflict(path string, src, dst tree.Entry) error {
	what := map[tree.Type]string{tree.File: "a file", tree.Dir: "a directory", tree.Symlink: "a link", tree.Special: "a special file"}
	hint := "--force lets it be replaced"
	if path == "" && src.Type != tree.Dir && dst.Type == tree.Dir {
		hint = "end the target with a slash to put the file into that directory under its own name; " + hint
	}
	err := fmt.Errorf("%q is %s in the target and %s in the source", path, what[dst.Type], what[src.Type])
	if path == "" {
		err = fmt.Errorf("the target is %s, and the source %s", what[dst.Type], what[src.Type])
	}
	return &provider.Error{Kind: provider.Refused, Hint: hint, Err: err}
}

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
	case src.Type != tree.Dir && dst.Type != tree.Dir:
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
