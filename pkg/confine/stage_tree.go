package confine

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/sbsync/sbsync/pkg/tree"
)

// staged opens the directory that holds the staged rel and returns rel's name
// in it. In a stage Inside, parents are made: they stand for directories that
// the destination has.
func (s *Stage) staged(rel string) (*dir, string, error) {
	if rel == "" {
		d, err := s.inner.open("", false)
		return d, stagedName, err
	}
	if err := checkRel(rel); err != nil {
		return nil, "", err
	}
	d, err := s.inner.open(stagedPath(tree.Parent(rel)), s.place == Inside)
	return d, tree.Base(rel), err
}

// stagedPath is where rel is in the stage.
func stagedPath(rel string) string {
	if rel == "" {
		return stagedName
	}
	return stagedName + "/" + rel
}

// Mkdir makes a directory in the staged tree. It is the user's alone until
// [Stage.FinishDir].
func (s *Stage) Mkdir(rel string) error {
	return s.inStaged("make directory", rel, func(d *dir, name string) error { return d.Mkdir(name, 0o700) })
}

// Create makes a file in the staged tree, open for reading and writing, with
// mode 0600. It never opens what exists, so of two names that are one to the
// file system the second fails with fs.ErrExist. The file is to be ended with
// [Stage.FinishFile].
func (s *Stage) Create(rel string) (f *os.File, err error) {
	err = s.inStaged("create", rel, func(d *dir, name string) error {
		f, err = d.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		return err
	})
	return f, err
}

// FinishFile gives a file from [Stage.Create] exactly the mode and time, and
// closes it in any case. On Windows only the owner's write bit counts.
func (s *Stage) FinishFile(f *os.File, mode uint32, t tree.Time) error {
	err := f.Chmod(fileMode(mode))
	if err == nil {
		err = s.setTime(f, t)
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return s.fault("finish", s.relOf(f), err)
	}
	return nil
}

// Symlink makes a link in the staged tree. Its target is not judged here; see
// [CheckLinks].
func (s *Stage) Symlink(target, rel string) error {
	return s.inStaged("make link", rel, func(d *dir, name string) error { return d.Symlink(target, name) })
}

// Link makes newrel a hard link to oldrel, a file of the staged tree that is
// finished. Where the file system has no hard links it is a copy.
func (s *Stage) Link(oldrel, newrel string) error {
	return s.inStaged("link", newrel, func(to *dir, newname string) error {
		from, oldname, err := s.staged(oldrel)
		if err != nil {
			return err
		}
		defer from.release()
		info, err := from.Lstat(oldname)
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			return ErrNotRegular
		}
		err = linkAt(from, oldname, to, newname)
		if err == nil || errors.Is(err, fs.ErrExist) {
			return err
		}
		return copyFile(from, oldname, to, newname, info)
	})
}

// copyFile copies a file with its mode and time to a name that is free.
func copyFile(from *dir, oldname string, to *dir, newname string, info fs.FileInfo) error {
	src, err := from.Open(oldname)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := to.OpenFile(newname, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(dst, src)
	if err == nil {
		err = dst.Chmod(info.Mode())
	}
	if closeErr := dst.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = to.Chtimes(newname, time.Time{}, info.ModTime())
	}
	return err
}

// FinishDir gives a directory of the staged tree exactly the mode and time. It
// comes after everything below was finished: later changes would change the
// time again, or be refused by the mode.
func (s *Stage) FinishDir(rel string, mode uint32, t tree.Time) error {
	return s.inStaged("finish", rel, func(d *dir, name string) error {
		info, err := d.Lstat(name)
		if err != nil {
			return err
		}
		if !info.IsDir() {
			return errNotDir
		}
		if err := d.Chtimes(name, time.Time{}, stdTime(t)); err != nil {
			return err
		}
		return d.Chmod(name, fileMode(mode))
	})
}

// RemoveStaged takes rel and what is below out of the staged tree.
func (s *Stage) RemoveStaged(rel string) error {
	return s.inStaged("remove", rel, func(d *dir, name string) error {
		s.inner.drop(stagedPath(rel))
		if _, err := d.Lstat(name); err != nil {
			return err
		}
		return removeScratch(d, name)
	})
}

// inStaged calls do with the directory that holds the staged rel and its name.
func (s *Stage) inStaged(op, rel string, do func(d *dir, name string) error) error {
	d, name, err := s.staged(rel)
	if err == nil {
		err = do(d, name)
		d.release()
	}
	if err != nil {
		return s.fault(op, rel, err)
	}
	return nil
}

// fileMode converts POSIX mode bits.
func fileMode(mode uint32) fs.FileMode {
	m := fs.FileMode(mode & tree.ModePerm)
	for bit, flag := range map[uint32]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky} {
		if mode&bit != 0 {
			m |= flag
		}
	}
	return m
}

func stdTime(t tree.Time) time.Time { return time.Unix(t.Sec, int64(t.Nsec)) }
