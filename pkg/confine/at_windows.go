package confine

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/windows"

	"github.com/sbsync/sbsync/pkg/tree"
)

// renameAt renames by paths below the directory that holds both: one is in the
// stage, the other in the destination, or both are in the stage.
func renameAt(from *dir, oldname string, to *dir, newname string, mode renameMode) error {
	if mode == exchange {
		return errors.ErrUnsupported
	}
	if mode == noReplace {
		if _, err := to.Lstat(newname); err == nil {
			return fs.ErrExist
		}
	}
	top := from.cache.top
	if from.cache.within != nil {
		top = from.cache.within
	}
	return top.Rename(from.wholePath(oldname), to.wholePath(newname))
}

// wholePath is the path of a name in d, below the directory that holds the
// stage.
func (d *dir) wholePath(name string) string {
	for _, p := range []string{d.path, d.cache.prefix} {
		if p != "" {
			name = p + "/" + name
		}
	}
	return name
}

func linkAt(from *dir, oldname string, to *dir, newname string) error {
	return from.cache.within.Link(from.wholePath(oldname), to.wholePath(newname))
}

// unlink removes a name that is no directory, or was none a moment ago.
func unlink(d *dir, name string) error { return d.Remove(name) }

// rmdir removes an empty directory.
func rmdir(d *dir, name string) error { return d.Remove(name) }

// setTime sets the time of last modification by the handle: set in another way
// it would be overwritten when the file is closed.
func (s *Stage) setTime(f *os.File, t tree.Time) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var setErr error
	err = conn.Control(func(fd uintptr) {
		mtime := windows.NsecToFiletime(stdTime(t).UnixNano())
		setErr = windows.SetFileTime(windows.Handle(fd), nil, nil, &mtime)
	})
	return orErr(err, setErr)
}

// isMount is for systems where a rename of a mount point fails late.
func isMount(string, fs.FileInfo) bool { return false }
