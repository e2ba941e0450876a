//go:build unix

package confine

import (
	"errors"

	"golang.org/x/sys/unix"
)

// renameAt renames between two open directories. It works on their
// descriptors, since a Root only renames within itself and looks up the
// parents by name again.
func renameAt(from *dir, oldname string, to *dir, newname string, mode renameMode) error {
	oldFd, err := from.fd()
	if err != nil {
		return err
	}
	newFd, err := to.fd()
	if err != nil {
		return err
	}
	if mode == replace {
		return ignoringEINTR(func() error { return unix.Renameat(oldFd, oldname, newFd, newname) })
	}
	err = ignoringEINTR(func() error { return renameFlags(oldFd, oldname, newFd, newname, mode) })
	if errors.Is(err, unix.EINVAL) {
		// File systems that do not know the flag say so.
		return errors.ErrUnsupported
	}
	return err
}

func linkAt(from *dir, oldname string, to *dir, newname string) error {
	oldFd, err := from.fd()
	if err != nil {
		return err
	}
	newFd, err := to.fd()
	if err != nil {
		return err
	}
	return ignoringEINTR(func() error { return unix.Linkat(oldFd, oldname, newFd, newname, 0) })
}

// unlink removes a name that is no directory.
func unlink(d *dir, name string) error {
	fd, err := d.fd()
	if err != nil {
		return err
	}
	return ignoringEINTR(func() error { return unix.Unlinkat(fd, name, 0) })
}

// rmdir removes an empty directory.
func rmdir(d *dir, name string) error {
	fd, err := d.fd()
	if err != nil {
		return err
	}
	return ignoringEINTR(func() error { return unix.Unlinkat(fd, name, unix.AT_REMOVEDIR) })
}

// ignoringEINTR repeats a system call that a signal interrupted, which network
// file systems and FUSE let happen.
func ignoringEINTR(do func() error) error {
	for {
		if err := do(); err != unix.EINTR {
			return err
		}
	}
}
