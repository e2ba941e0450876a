//go:build unix

package confine

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

func isNoSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

func isReadOnly(err error) bool { return errors.Is(err, syscall.EROFS) }

func isCrossDevice(err error) bool { return errors.Is(err, syscall.EXDEV) }

// isImmovable says whether a rename failed because a mount is involved.
func isImmovable(err error) bool {
	return isCrossDevice(err) || errors.Is(err, syscall.EBUSY)
}

// isOurs says whether this user owns what info describes.
func isOurs(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}
