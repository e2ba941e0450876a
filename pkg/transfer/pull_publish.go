package transfer

import (
	"errors"
	"io/fs"
	"maps"
	"slices"

	"github.com/sbsync/sbsync/pkg/confine"
	"github.com/sbsync/sbsync/pkg/tree"
)

// carry takes the plan to the host: staged, verified, published.
func (g *puller) carry(dst *tree.Snapshot) (err error) {
	inPlace, err := g.openStage(dst)
	if err != nil {
		return err
	}
	defer func() {
		if derr := g.stage.Discard(); derr != nil {
			g.warn("%s may be left on the host: %v", g.stage.Path(), derr)
		}
	}()
	if err := g.fill(); err != nil {
		return err
	}
	g.phase("publish")
	if err := g.publish(dst, inPlace); err != nil {
		if rerr := g.stage.Rollback(); rerr != nil {
			err = errors.Join(err, rerr)
		}
		return err
	}
	if err := g.stage.Commit(); err != nil {
		g.warn("%s may be left on the host: %v", g.stage.Path(), err)
	}
	return nil
}

// openStage makes the staging directory where the plan needs it. Where a
// directory cannot be replaced as a whole, its entries are.
func (g *puller) openStage(dst *tree.Snapshot) (inPlace bool, err error) {
	place := confine.Inside
	switch {
	case dst.Root.Type != tree.Dir:
		place = confine.BesideLink
	case g.plan.newRoot:
		place = confine.Beside
	}
	g.inside = place == confine.Inside
	g.stage, err = confine.OpenStage(g.mapping.Target, place)
	if place == confine.Beside && errors.Is(err, confine.ErrInPlace) && g.plan.root.Type == tree.Dir {
		g.stage, err = confine.OpenStage(g.mapping.Target, confine.Inside)
		g.inside, inPlace = true, true
	}
	return inPlace, err
}

// fill stages everything that the plan sends.
func (g *puller) fill() error {
	if g.plan.newRoot && g.plan.root.Type == tree.Dir && !g.inside {
		if err := g.stage.Mkdir(""); err != nil {
			return err
		}
	}
	var files []tree.Entry
	for _, e := range g.plan.send {
		switch e.Type {
		case tree.Dir:
			if err := g.stage.Mkdir(e.Path); err != nil {
				return err
			}
		case tree.Symlink:
			if err := g.stage.Symlink(e.Link, e.Path); err != nil {
				return err
			}
		case tree.File:
			if _, hard := g.plan.hard[e.Path]; !hard {
				files = append(files, e)
			}
		}
	}
	if g.plan.newRoot {
		switch g.plan.root.Type {
		case tree.File:
			files = append(files, g.plan.root)
		case tree.Symlink:
			if err := g.stage.Symlink(g.plan.root.Link, ""); err != nil {
				return err
			}
		}
	}
	if len(files) > 0 {
		if err := g.fetch(files); err != nil {
			return err
		}
	}
	return g.finishStage()
}

// finishStage makes hard links, judges failures, and gives directories their
// modes and times, the deepest first.
func (g *puller) finishStage() error {
	for _, e := range g.plan.send {
		first, hard := g.plan.hard[e.Path]
		if !hard {
			continue
		}
		if g.failed[first] {
			g.fail(e.Path, errFirstLink)
			continue
		}
		if err := g.stage.Link(first, e.Path); err != nil {
			return err
		}
		g.progress(1, 0)
	}
	g.reportChanges()
	if err := g.refuse(g.mapping, g.plan, g.failed, g.changed); err != nil {
		return err
	}
	// What arrived of failed files must not be published with their directory.
	for p := range g.failed {
		if err := g.stage.RemoveStaged(p); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	for i := len(g.plan.send) - 1; i >= 0; i-- {
		e := g.plan.send[i]
		if e.Type != tree.Dir {
			continue
		}
		if err := g.stage.FinishDir(e.Path, g.plan.stagedMode(e), e.Time); err != nil {
			return err
		}
	}
	if root := g.plan.root; g.plan.newRoot && root.Type == tree.Dir && !g.inside {
		return g.stage.FinishDir("", g.plan.stagedMode(root), root.Time)
	}
	return nil
}

func (g *puller) fail(p string, err error) {
	g.failed[p] = true
	g.problem(tree.Problem{Path: p, Err: err})
}

// change takes note of a file that changed while it was read.
func (g *puller) change(p string) { g.changed[p] = true }

// reportChanges tells of the files that changed, but for those that failed
// in the end.
func (g *puller) reportChanges() {
	for _, p := range slices.Sorted(maps.Keys(g.changed)) {
		if !g.failed[p] {
			g.problem(tree.Problem{Path: p, Err: errModified})
		}
	}
}

// publish moves the staged tree to its place.
func (g *puller) publish(dst *tree.Snapshot, inPlace bool) error {
	switch {
	case inPlace:
		return g.replaceEntries()
	case !g.plan.newRoot:
		return g.publishSteps(dst)
	case dst.Root.Type != tree.Dir && (g.plan.root.Type != tree.Dir || dst.Root.Type == 0):
		if err := g.stage.PublishRoot(); err != nil {
			return err
		}
	default:
		atomic, err := g.stage.SwapRoot()
		if err != nil {
			return err
		}
		g.report.Atomic = g.report.Atomic && atomic
	}
	if g.plan.root.Type == tree.Dir && g.plan.root.Mode&0o200 == 0 {
		return g.stage.Chmod("", g.plan.root.Mode)
	}
	return nil
}

func (g *puller) publishSteps(dst *tree.Snapshot) error {
	types := make(map[string]tree.Type, len(g.plan.send))
	for _, e := range g.plan.send {
		types[e.Path] = e.Type
	}
	for _, s := range g.plan.steps {
		if g.failed[s.path] && s.kind != stepRemove && s.kind != stepRemoveDir {
			continue
		}
		if err := g.publishStep(s, types[s.path]); err != nil {
			return err
		}
	}
	return nil
}

func (g *puller) publishStep(s step, t tree.Type) error {
	switch s.kind {
	case stepUnlock:
		return nil // the stage does that by itself
	case stepMove:
		if t == tree.Dir {
			return g.stage.PublishNew(s.path)
		}
		return g.stage.PublishOver(s.path)
	case stepConvert:
		if err := g.stage.Retire(s.path); err != nil {
			return err
		}
		return g.stage.PublishNew(s.path)
	case stepChmod:
		return g.stage.Chmod(s.path, s.mode)
	case stepTouch:
		return g.stage.Chtimes(s.path, s.time)
	case stepRemove:
		return g.stage.Remove(s.path)
	}
	return g.stage.RemoveDir(s.path)
}

// replaceEntries replaces what is in the destination, for one that can't be
// swapped as a whole.
func (g *puller) replaceEntries() error {
	g.report.Atomic = false
	old, err := tree.Scan(g.ctx, g.mapping.Target, tree.ScanOptions{})
	if err != nil {
		return err
	}
	for _, e := range old.Entries {
		if tree.Parent(e.Path) == "" {
			if err := g.stage.Retire(e.Path); err != nil {
				return err
			}
		}
	}
	for _, e := range g.plan.send {
		if tree.Parent(e.Path) != "" {
			continue
		}
		if err := g.stage.PublishNew(e.Path); err != nil {
			return err
		}
	}
	if err := g.stage.Chmod("", g.plan.root.Mode); err != nil {
		g.log("the destination keeps its mode: %v", err) // it may belong to another
	}
	return nil
}
