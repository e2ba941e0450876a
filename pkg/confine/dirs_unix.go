//go:build unix

package confine

import (
	"os"
	"sync"
)

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
