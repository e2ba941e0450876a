//go:build unix

package tree

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// dirHandle is an open directory. Entries are looked at relative to it, which
// is faster than by path and can't be led astray by a link put in between.
type dirHandle struct {
	f  *os.File
	fd int
}

// openDir opens a directory; a link to one is refused.
func openDir(path string) (*dirHandle, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	return &dirHandle{f: f, fd: int(f.Fd())}, nil
}

func (h *dirHandle) close() { h.f.Close() }

// names returns the names of all entries, in no order.
func (h *dirHandle) names() ([]string, error) { return h.f.Readdirnames(-1) }

// lstat fills in all of e but its path.
func (h *dirHandle) lstat(name string, e *Entry) error {
	var st unix.Stat_t
	err := retry(func() error { return unix.Fstatat(h.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) })
	if err != nil {
		return err
	}
	fillEntry(e, &st)
	if e.Type == Symlink {
		e.Link, err = h.readlink(name, int(st.Size))
	}
	return err
}

// readlink reads a link whose text is believed to have size bytes.
func (h *dirHandle) readlink(name string, size int) (string, error) {
	for size = max(size, 127) + 1; ; size *= 2 {
		buf := make([]byte, size)
		n := 0
		err := retry(func() (err error) {
			n, err = unix.Readlinkat(h.fd, name, buf)
			return err
		})
		if err != nil {
			return "", err
		}
		if n < size {
			return string(buf[:n]), nil
		}
	}
}

// readFile reads a regular file of at most limit bytes; false if it is not
// there or not regular.
func (h *dirHandle) readFile(name string, limit int64) ([]byte, bool, error) {
	var st unix.Stat_t
	err := retry(func() error { return unix.Fstatat(h.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) })
	if errors.Is(err, os.ErrNotExist) || err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	var fd int
	err = retry(func() (err error) {
		fd, err = unix.Openat(h.fd, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return nil, false, err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	data, err := readLimited(f, name, limit)
	return data, err == nil, err
}

// statPath fills in all of e but its path from what is at path itself.
func statPath(path string, e *Entry) error {
	var st unix.Stat_t
	if err := retry(func() error { return unix.Lstat(path, &st) }); err != nil {
		return err
	}
	fillEntry(e, &st)
	return nil
}

func fillEntry(e *Entry, st *unix.Stat_t) {
	e.Mode = uint32(st.Mode) & (ModePerm | ModeSpecial)
	e.Time = Time{Sec: int64(st.Mtim.Sec), Nsec: int32(st.Mtim.Nsec)}
	e.Changed = int64(st.Ctim.Sec)
	e.Dev, e.Ino, e.Nlink = uint64(st.Dev), uint64(st.Ino), uint32(st.Nlink)
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		e.Type, e.Size = File, st.Size
	case unix.S_IFDIR:
		e.Type = Dir
	case unix.S_IFLNK:
		e.Type = Symlink
	case unix.S_IFIFO:
		e.Type, e.Special = Special, "fifo"
	case unix.S_IFSOCK:
		e.Type, e.Special = Special, "socket"
	case unix.S_IFBLK, unix.S_IFCHR:
		e.Type, e.Special = Special, "device"
	default:
		e.Type, e.Special = Special, fmt.Sprintf("type %#o", st.Mode&unix.S_IFMT)
	}
}

// retry repeats a call that a signal interrupted, as package os does.
func retry(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}

// notDirectory says that what was a directory is something else by now.
func notDirectory(err error) bool {
	return errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP)
}

func isLinkLoop(err error) bool { return errors.Is(err, syscall.ELOOP) }
