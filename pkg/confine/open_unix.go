//go:build unix

package confine

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// openNonblock keeps open(2) from waiting for the other end of a FIFO.
const openNonblock = syscall.O_NONBLOCK

// openFile opens a regular file in d, and nothing else. What stands there is
// looked at first, since merely opening a device can do something. A push opens
// every file so: by the directory's descriptor that takes half the system calls
// of os.Root, which follows links even with O_NOFOLLOW.
func openFile(d *dir, name, rel string) (*os.File, fs.FileInfo, error) {
	dirFd, err := d.fd()
	if err != nil {
		return nil, nil, &fs.PathError{Op: "open", Path: rel, Err: cause(err)}
	}
	var before unix.Stat_t
	if err := ignoringEINTR(func() error { return unix.Fstatat(dirFd, name, &before, unix.AT_SYMLINK_NOFOLLOW) }); err != nil {
		return nil, nil, &fs.PathError{Op: "open", Path: rel, Err: err}
	}
	switch before.Mode & unix.S_IFMT {
	case unix.S_IFREG:
	case unix.S_IFLNK:
		return nil, nil, notRegular(rel, fs.ModeSymlink)
	default:
		return nil, nil, notRegular(rel, 0)
	}
	return openRegular(rel, func(flag int) (f *os.File, err error) {
		err = ignoringEINTR(func() error {
			fd, err := unix.Openat(dirFd, name, flag|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
			if err == nil {
				f = os.NewFile(uintptr(fd), rel)
			}
			return err
		})
		if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.EMLINK) { // FreeBSD's
			err = errReplaced
		}
		return f, err
	})
}
