package confine

import (
	"errors"
	"io/fs"

	"golang.org/x/sys/windows"
)

func isNoSpace(err error) bool {
	return errors.Is(err, windows.ERROR_DISK_FULL) || errors.Is(err, windows.ERROR_HANDLE_DISK_FULL) ||
		errors.Is(err, windows.ERROR_DISK_QUOTA_EXCEEDED)
}

func isReadOnly(err error) bool { return errors.Is(err, windows.ERROR_WRITE_PROTECT) }

func isCrossDevice(err error) bool { return errors.Is(err, windows.ERROR_NOT_SAME_DEVICE) }

// isImmovable says whether a rename failed because a mount is involved, or
// because a program has something open in the directory.
func isImmovable(err error) bool {
	return isCrossDevice(err) || errors.Is(err, windows.ERROR_SHARING_VIOLATION)
}

func diskFree(path string) (int64, error) {
	p, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return 0, err
	}
	var free uint64
	err = windows.GetDiskFreeSpaceEx(p, &free, nil, nil)
	return int64(free), err
}

// isOurs leaves the judgement to the access control list: what is not ours
// cannot be changed.
func isOurs(fs.FileInfo) bool { return true }
