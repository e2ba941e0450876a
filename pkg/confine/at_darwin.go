package confine

import (
	"golang.org/x/sys/unix"
)

func renameFlags(oldFd int, oldname string, newFd int, newname string, mode renameMode) error {
	flags := uint32(unix.RENAME_EXCL)
	if mode == exchange {
		flags = unix.RENAME_SWAP
	}
	return unix.RenameatxNp(oldFd, oldname, newFd, newname, flags)
}

func diskFree(path string) (int64, error) {
	var st unix.Statfs_t
	err := unix.Statfs(path, &st)
	return int64(st.Bavail) * int64(st.Bsize), err
}
