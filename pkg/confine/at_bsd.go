//go:build unix && !linux

package confine

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/sbsync/sbsync/pkg/tree"
)

// setTime sets the time of last modification by name, in the directory that
// only this process uses: package unix has no futimens for these systems.
func (s *Stage) setTime(f *os.File, t tree.Time) error {
	d, name, err := s.staged(s.relOf(f))
	if err != nil {
		return err
	}
	defer d.release()
	return d.Chtimes(name, time.Time{}, stdTime(t))
}

// isMount says whether something is mounted at path, which info describes.
func isMount(path string, info fs.FileInfo) bool {
	parent, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return false
	}
	inner, ok1 := info.Sys().(*syscall.Stat_t)
	outer, ok2 := parent.Sys().(*syscall.Stat_t)
	return ok1 && ok2 && inner.Dev != outer.Dev
}
