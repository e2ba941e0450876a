//go:build unix

package confine

import (
	"math"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// maxDescriptors is how many this process may have open.
func maxDescriptors() int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return math.MaxInt
	}
	return int(min(uint64(limit.Cur), math.MaxInt32))
}

// dirHandle is a descriptor of a directory for the system calls that os.Root
// does not have.
type dirHandle struct {
	once sync.Once
	file *os.File
	err  error
}

// fd returns a descriptor of d that is valid until d is released.
func (d *dir) fd() (int, error) {
	h := &d.handle
	h.once.Do(func() { h.file, h.err = d.Open(".") })
	if h.err != nil {
		return -1, h.err
	}
	return int(h.file.Fd()), nil
}

func (h *dirHandle) close() {
	if h.file != nil {
		h.file.Close()
	}
}
