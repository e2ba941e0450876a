package transfer

import (
	"fmt"

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
	// unlisted is what of the target could not be listed; nil: nothing.
	unlisted error
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
		if in.checksum || in.doubtful(src, dst) {
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

// doubtful says whether the times of two files of one size say nothing: one was
// cut to the second, and there may have been another state in that second. That
// is so if the sandbox's file was put there within it, or if the source's took
// its state no earlier than the target's, which then was a copy of another one.
// Two times without a fraction may both have been cut.
func (in *planInput) doubtful(src, dst tree.Entry) bool {
	if !in.wholeSeconds || !in.sameTime(src.Time, dst.Time) || src.Time.Nsec == dst.Time.Nsec && src.Time.Nsec != 0 {
		return false
	}
	racy := func(e tree.Entry) bool { return e.Time.Nsec == 0 && e.Changed != 0 && e.Changed <= e.Time.Sec }
	return racy(src) || racy(dst) || dst.Changed != 0 && src.Changed >= dst.Changed
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
