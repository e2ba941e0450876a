package tree

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/windows"
)

// Windows keeps no POSIX modes. These stand for what it does keep.
const (
	windowsDirMode      = 0o755
	windowsFileMode     = 0o644
	windowsReadOnlyMode = 0o444
	windowsLinkMode     = 0o777
)

// dirHandle is a directory. There are no calls relative to an open one.
type dirHandle struct{ path string }

func openDir(path string) (*dirHandle, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, syscall.ENOTDIR
	}
	return &dirHandle{path}, nil
}

func (h *dirHandle) close() {}

// names returns the names of all entries, in no order.
func (h *dirHandle) names() ([]string, error) {
	f, err := os.Open(h.path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}

// lstat fills in all of e but its path. A link's text gets "/" for "\".
func (h *dirHandle) lstat(name string, e *Entry) error {
	path := filepath.Join(h.path, name)
	if err := statPath(path, e); err != nil {
		return err
	}
	if e.Type == Symlink {
		target, err := os.Readlink(path)
		if err != nil {
			return err
		}
		e.Link = filepath.ToSlash(target)
	}
	return nil
}

// readFile reads a regular file of at most limit bytes; false if it is not
// there or not regular.
func (h *dirHandle) readFile(name string, limit int64) ([]byte, bool, error) {
	path := filepath.Join(h.path, name)
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	data, err := readRegular(path, limit)
	return data, err == nil, err
}

// statPath fills in all of e but its path from what is at path itself. Dev and
// Ino stay 0: they would cost an open file each.
func statPath(path string, e *Entry) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	mtime := info.ModTime()
	e.Time = Time{Sec: mtime.Unix(), Nsec: int32(mtime.Nanosecond())}
	e.Nlink = 1
	switch mode := info.Mode(); {
	case mode.IsRegular():
		e.Type, e.Size, e.Mode = File, info.Size(), windowsFileMode
		if mode&0o200 == 0 {
			e.Mode = windowsReadOnlyMode
		}
	case mode.IsDir():
		e.Type, e.Mode = Dir, windowsDirMode
	case mode&fs.ModeSymlink != 0:
		e.Type, e.Mode = Symlink, windowsLinkMode
	case mode&fs.ModeSocket != 0:
		e.Type, e.Special = Special, "socket"
	case mode&fs.ModeNamedPipe != 0:
		e.Type, e.Special = Special, "fifo"
	default: // a device, a mount point or another reparse point
		e.Type, e.Special = Special, "device"
	}
	return nil
}

// notDirectory says that what was a directory is something else by now.
func notDirectory(err error) bool { return errors.Is(err, syscall.ENOTDIR) }

func isLinkLoop(err error) bool { return errors.Is(err, windows.ERROR_CANT_RESOLVE_FILENAME) }
