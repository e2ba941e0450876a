package transfer_test

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"
)

// mountSmall mounts a file system of so many bytes on dir, if it may.
func mountSmall(t testing.TB, dir string, size int64) bool {
	t.Helper()
	if err := unix.Mount("sbsync-test", dir, "tmpfs", 0, fmt.Sprintf("size=%d", size)); err != nil {
		t.Logf("no file system of its own: %v", err)
		return false
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	return true
}
