package confine

import (
	"io/fs"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sbsync/sbsync/pkg/tree"
)

func renameFlags(oldFd int, oldname string, newFd int, newname string, mode renameMode) error {
	flags := uint(unix.RENAME_NOREPLACE)
	if mode == exchange {
		flags = unix.RENAME_EXCHANGE
	}
	return unix.Renameat2(oldFd, oldname, newFd, newname, flags)
}

// setTime sets the time of last modification by the descriptor: utimensat(2)
// with a null path is what futimens(3) does.
func (s *Stage) setTime(f *os.File, t tree.Time) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	mtime, err := unix.TimeToTimespec(stdTime(t))
	if err != nil {
		return err
	}
	times := [2]unix.Timespec{{Nsec: unix.UTIME_OMIT}, mtime}
	var errno unix.Errno
	err = conn.Control(func(fd uintptr) {
		_, _, errno = unix.Syscall6(unix.SYS_UTIMENSAT, fd, 0, uintptr(unsafe.Pointer(&times)), 0, 0, 0)
	})
	if err == nil && errno != 0 {
		err = errno
	}
	return err
}

// isMount says whether something is mounted at path, a directory.
func isMount(path string, _ fs.FileInfo) bool {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, 0, &st)
	return err == nil && st.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT != 0 &&
		st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
}

func diskFree(path string) (int64, error) {
	var st unix.Statfs_t
	err := unix.Statfs(path, &st)
	return int64(st.Bavail) * int64(st.Bsize), err
}
