package confine

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"time"

	"github.com/sbsync/sbsync/pkg/tree"
)

var (
	errIsDir  = errors.New("is a directory")
	errIsLink = errors.New("is a link")
)

// published opens the directory of the destination that holds rel and returns
// rel's name in it.
func (s *Stage) published(rel string) (*dir, string, error) {
	if rel == "" {
		if s.place == Inside {
			return nil, "", s.usage("publish", "the root of a stage inside the destination is not published")
		}
		d, err := s.outer.open("", false)
		return d, s.base, err
	}
	if s.place != Inside {
		return nil, "", s.usage("publish", "a stage beside the destination publishes the root alone")
	}
	if err := checkRel(rel); err != nil {
		return nil, "", err
	}
	d, err := s.outer.open(tree.Parent(rel), false)
	return d, tree.Base(rel), err
}

// PublishNew moves rel, with all that is below, from the staged tree to the
// destination, where nothing may be (fs.ErrExist) and the parent must exist.
func (s *Stage) PublishNew(rel string) error {
	return s.inBoth("publish", rel, func(from *dir, oldname string, to *dir, newname string) error {
		return s.publishNew(rel, from, oldname, to, newname)
	})
}

func (s *Stage) publishNew(rel string, from *dir, oldname string, to *dir, newname string) error {
	s.inner.drop(stagedPath(rel))
	if err := move(from, oldname, to, newname, noReplace); err != nil {
		return err
	}
	s.undo = append(s.undo, undo{takeBack, stagedPath(rel), rel})
	return nil
}

// PublishOver moves the file or link rel from the staged tree over the file or
// link in the destination, atomically. If there is nothing any more, that is
// fine; if there is a directory, that is an error. What was replaced is kept
// for [Stage.Rollback] where the system can exchange two files (Linux, macOS).
func (s *Stage) PublishOver(rel string) error {
	return s.inBoth("publish", rel, func(from *dir, oldname string, to *dir, newname string) error {
		return s.publishOver(rel, from, oldname, to, newname)
	})
}

func (s *Stage) publishOver(rel string, from *dir, oldname string, to *dir, newname string) error {
	if info, err := from.Lstat(oldname); err != nil || info.IsDir() {
		return orErr(err, errIsDir)
	}
	info, err := to.Lstat(newname)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return s.publishNew(rel, from, oldname, to, newname)
	case err != nil:
		return err
	case info.IsDir():
		return errIsDir
	}
	err = move(from, oldname, to, newname, exchange)
	if errors.Is(err, errors.ErrUnsupported) {
		return move(from, oldname, to, newname, replace)
	}
	if err != nil {
		return err
	}
	// A rename would have refused a directory that came in between.
	if info, err := from.Lstat(oldname); err == nil && info.IsDir() {
		return orErr(move(from, oldname, to, newname, exchange), errIsDir)
	}
	s.undo = append(s.undo, undo{exchangeBack, stagedPath(rel), rel})
	return nil
}

// Retire moves rel, with all that is below, from the destination into the
// stage. [Stage.Commit] removes it, [Stage.Rollback] puts it back, and if this
// process dies before either, the next [Sweep] puts it back unless something
// else is there.
func (s *Stage) Retire(rel string) error {
	return s.inDest("retire", rel, func(from *dir, name string) error {
		place, err := s.retiredPlace(rel)
		if err != nil {
			return err
		}
		to, err := s.inner.open(tree.Parent(place), true)
		if err != nil {
			return err
		}
		defer to.release()
		s.outer.drop(rel)
		if err := move(from, name, to, name, noReplace); err != nil {
			return err
		}
		s.retired[rel] = true
		s.undo = append(s.undo, undo{putBack, place, rel})
		return nil
	})
}

// retiredPlace returns the path in the stage for the retired rel. What is
// retired keeps its path, so that Sweep knows where it belongs. A path that is
// taken, or lies in something that was itself retired, opens a new generation.
func (s *Stage) retiredPlace(rel string) (string, error) {
	place := func() string { return retiredName + "/" + strconv.Itoa(s.generation) + "/" + rel }
	taken := false
	for p := rel; p != "" && !taken; p = tree.Parent(p) {
		taken = s.retired[p]
	}
	if !taken {
		d, err := s.inner.open(tree.Parent(place()), true)
		if err != nil {
			return "", err
		}
		_, err = d.Lstat(tree.Base(rel))
		d.release()
		taken = err == nil
	}
	if taken {
		s.generation++
		clear(s.retired)
	}
	return place(), nil
}

// Chmod gives a file or directory of the destination exactly the mode; "" is
// the destination itself. A link is an error. It is not undone by Rollback.
func (s *Stage) Chmod(rel string, mode uint32) error {
	return s.onPublished("chmod", rel, func(d *dir, name string) error { return d.Chmod(name, fileMode(mode)) })
}

// Chtimes sets the time of last modification of a file or directory of the
// destination; "" is the destination itself. A link is an error. It is not
// undone by Rollback.
func (s *Stage) Chtimes(rel string, t tree.Time) error {
	return s.onPublished("set time", rel, func(d *dir, name string) error {
		return d.Chtimes(name, time.Time{}, stdTime(t))
	})
}

// onPublished calls do for a file or directory of the destination.
func (s *Stage) onPublished(op, rel string, do func(d *dir, name string) error) error {
	if rel == "" && s.place == Inside {
		if err := do(s.outer.top, "."); err != nil {
			return s.fault(op, rel, err)
		}
		return nil
	}
	return s.inDest(op, rel, func(d *dir, name string) error {
		info, err := d.Lstat(name)
		if err != nil {
			return err
		}
		if info.Mode().Type() == fs.ModeSymlink {
			return refuse("", "", "%w", errIsLink)
		}
		return do(d, name)
	})
}

// Remove removes a file or link of the destination for good. A directory is an
// error.
func (s *Stage) Remove(rel string) error {
	return s.inDest("remove", rel, func(d *dir, name string) error {
		info, err := d.Lstat(name)
		if err != nil || info.IsDir() {
			return orErr(err, errIsDir)
		}
		return withWrite(func() error { return unlink(d, name) }, d)
	})
}

// RemoveDir removes an empty directory of the destination for good. If it is
// not empty, that is an error.
func (s *Stage) RemoveDir(rel string) error {
	return s.inDest("remove directory", rel, func(d *dir, name string) error {
		info, err := d.Lstat(name)
		if err != nil || !info.IsDir() {
			return orErr(err, errNotDir)
		}
		s.outer.drop(rel)
		return withWrite(func() error { return rmdir(d, name) }, d)
	})
}

// inDest calls do with the directory of the destination that holds rel.
func (s *Stage) inDest(op, rel string, do func(d *dir, name string) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, name, err := s.published(rel)
	if err == nil {
		err = do(d, name)
		d.release()
	}
	if err != nil {
		return s.fault(op, rel, err)
	}
	return nil
}

// inBoth calls do with the directories that hold rel in the staged tree and in
// the destination.
func (s *Stage) inBoth(op, rel string, do func(from *dir, oldname string, to *dir, newname string) error) error {
	return s.inDest(op, rel, func(to *dir, newname string) error {
		from, oldname, err := s.staged(rel)
		if err != nil {
			return fmt.Errorf("staged tree: %w", err)
		}
		defer from.release()
		return do(from, oldname, to, newname)
	})
}

// orErr returns err, or other if err is nil.
func orErr(err, other error) error {
	if err != nil {
		return err
	}
	return other
}
