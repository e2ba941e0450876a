//go:build unix

package transfer_test

import (
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func makeFIFO(t testing.TB, path string) {
	t.Helper()
	must(t, unix.Mkfifo(path, 0o644))
}

// makeSpecial makes what is neither file nor directory nor link, as far as the
// tests may, and returns the names.
func makeSpecial(t testing.TB, dir string) []string {
	t.Helper()
	var made []string
	for name, mode := range map[string]uint32{"s": unix.S_IFSOCK, "p": unix.S_IFIFO, "c": unix.S_IFCHR, "b": unix.S_IFBLK} {
		if err := unix.Mknod(filepath.Join(dir, name), mode|0o644, int(unix.Mkdev(1, 3))); err == nil {
			made = append(made, name)
		}
	}
	if len(made) < 2 {
		t.Errorf("only %q could be made", made)
	}
	return made
}
