package confine

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/sbsync/sbsync/pkg/tree"
)

// undo is how a step of publishing is taken back.
type undo struct {
	kind  undoKind
	inner string // path in the stage
	rel   string // path in the destination
}

type undoKind int

const (
	takeBack     undoKind = iota // move from the destination to the stage
	putBack                      // move from the stage to the destination
	exchangeBack                 // exchange the two
)

// Rollback takes back what was published and puts back what was retired or
// replaced, last step first, as far as it can; errors come joined. What
// [Stage.Remove] and [Stage.RemoveDir] removed, and modes and times, stay as
// they are. After Commit it does nothing.
func (s *Stage) Rollback() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rollback()
}

func (s *Stage) rollback() error {
	var errs []error
	var stuck []undo
	for i := len(s.undo) - 1; i >= 0; i-- {
		if err := s.takeBack(s.undo[i]); err != nil {
			errs = append(errs, s.fault("roll back", s.undo[i].rel, err))
			stuck = append(stuck, s.undo[i])
		}
	}
	s.undo = stuck
	return errors.Join(errs...)
}

func (s *Stage) takeBack(u undo) error {
	d, name, err := s.published(u.rel)
	if err != nil {
		return err
	}
	defer d.release()
	in, err := s.inner.open(tree.Parent(u.inner), true)
	if err != nil {
		return err
	}
	defer in.release()
	s.outer.drop(u.rel)
	s.inner.drop(u.inner)
	switch u.kind {
	case takeBack:
		return move(d, name, in, tree.Base(u.inner), noReplace)
	case putBack:
		return move(in, tree.Base(u.inner), d, name, noReplace)
	default:
		return move(in, tree.Base(u.inner), d, name, exchange)
	}
}

// Commit makes what was published final: what was retired is removed, and the
// stage with it. An error means that the destination is complete, and that a
// leftover stays which [Stage.Discard] or the next [Sweep] removes.
func (s *Stage) Commit() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.committed || s.discarded {
		return nil
	}
	if err := s.seal(); err != nil {
		return s.fault("commit", "", err)
	}
	return s.remove()
}

// seal makes what is retired rubbish instead of a backup, for Discard and, if
// this process is killed, for Sweep.
func (s *Stage) seal() error {
	s.committed, s.undo = true, nil
	return s.inner.top.Rename(forFile, doneFile)
}

// Discard removes the stage, and the parents that OpenStage made if they are
// empty. Without a Commit it rolls back first. If something of the user's
// cannot be put back, the stage stays and the error says where it is. Calling
// Discard again is fine.
func (s *Stage) Discard() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.discarded {
		return nil
	}
	if err := s.rollback(); err != nil {
		return fmt.Errorf("%w\nwhat could not be put back is in %s", err, quote(s.dir()))
	}
	err := s.remove()
	if !s.committed {
		removeMade(s.made)
	}
	return err
}

// remove removes the stage. The caller holds the lock.
func (s *Stage) remove() error {
	s.pulse.Stop()
	s.inner.close()
	top := s.outer.top
	if err := withWrite(func() error { return removeStage(top, s.name) }, top); err != nil {
		return s.fault("remove scratch directory of", "", fmt.Errorf("%s: %w", quote(s.dir()), cause(err)))
	}
	s.discarded = true
	s.outer.close()
	return nil
}

func (s *Stage) dir() string { return filepath.Join(s.outer.top.Name(), s.name) }
