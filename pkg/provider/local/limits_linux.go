package local

import (
	"os"
	"syscall"
)

// maxArgs 0 stands for the default, which is Linux's.
const maxArgs = 0

// pipeSize is the most that Linux lets everybody have
// (/proc/sys/fs/pipe-max-size), instead of 64 KiB. Measured through cat on a busy
// machine with two cores: 900 MB/s, against 630 MB/s with 64 KiB.
const pipeSize = 1 << 20

// enlarge makes the pipe hold more, if the system lets us.
func enlarge(f *os.File) {
	if f == nil {
		return
	}
	conn, err := f.SyscallConn()
	if err != nil {
		return
	}
	_ = conn.Control(func(fd uintptr) {
		_, _, _ = syscall.Syscall(syscall.SYS_FCNTL, fd, syscall.F_SETPIPE_SZ, pipeSize)
	})
}
