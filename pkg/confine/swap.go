package confine

import (
	"errors"
	"fmt"
	"io/fs"
)

// PublishRoot moves the staged root to the destination. Nothing may be there
// (fs.ErrExist), unless neither is a directory: then the old one is replaced
// atomically.
func (s *Stage) PublishRoot() error {
	err := s.inBoth("publish", "", func(from *dir, oldname string, to *dir, newname string) error {
		staged, err := from.Lstat(oldname)
		if err != nil {
			return err
		}
		if there, err := to.Lstat(newname); err == nil {
			if staged.IsDir() || there.IsDir() {
				return fs.ErrExist
			}
			return s.publishOver("", from, oldname, to, newname)
		}
		return s.publishNew("", from, oldname, to, newname)
	})
	return err
}

// SwapRoot puts the staged root in the place of the destination, which must
// exist, and keeps the old one in the stage for [Stage.Rollback]. Where the
// system can exchange two names (Linux, macOS) that is atomic; elsewhere there
// is an instant without a destination, and if the process dies in it, the next
// [Sweep] puts the old one back. The answer says which it was.
//
// The error wraps [ErrInPlace] if the destination cannot be moved at all. The
// old tree is in its place then.
func (s *Stage) SwapRoot() (atomic bool, err error) {
	err = s.inBoth("swap", "", func(from *dir, oldname string, to *dir, newname string) error {
		s.inner.drop(stagedName)
		if _, err := to.Lstat(newname); err != nil {
			return err
		}
		err := move(from, oldname, to, newname, exchange)
		if err == nil {
			atomic = true
			s.undo = append(s.undo, undo{exchangeBack, stagedName, ""})
			return nil
		}
		if !errors.Is(err, errors.ErrUnsupported) {
			return orInPlace(err)
		}
		return s.swapInTwo(from, oldname, to, newname)
	})
	return atomic, err
}

// swapInTwo swaps with two renames.
func (s *Stage) swapInTwo(from *dir, oldname string, to *dir, newname string) error {
	if err := move(to, newname, from, oldName, noReplace); err != nil {
		return orInPlace(err)
	}
	s.undo = append(s.undo, undo{putBack, oldName, ""})
	err := move(from, oldname, to, newname, noReplace)
	if err == nil {
		s.undo = append(s.undo, undo{takeBack, stagedName, ""})
		return nil
	}
	if back := s.rollback(); back != nil {
		return errors.Join(err, back)
	}
	return orInPlace(err)
}

// orInPlace marks errors that say that a name cannot be renamed where it is.
func orInPlace(err error) error {
	if err != nil && (errors.Is(err, fs.ErrPermission) || isReadOnly(err) || isImmovable(err)) {
		return fmt.Errorf("%w: %w", ErrInPlace, cause(err))
	}
	return err
}
