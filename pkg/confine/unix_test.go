//go:build unix

package confine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sbsync/sbsync/pkg/provider"
)

// TestModesAreExact is kubernetes/kubernetes#40869.
func TestModesAreExact(t *testing.T) {
	for _, umask := range []int{0, 0o022, 0o077} {
		t.Run(fmt.Sprintf("umask %03o", umask), func(t *testing.T) {
			dest := filepath.Join(t.TempDir(), "x", "out")
			defer syscall.Umask(syscall.Umask(umask))
			s := openStage(t, dest, Beside)
			check(t, s.Mkdir(""))
			files := []uint32{0o755, 0o600, 0o444, 0o640, 0o777, 0, 0o4755}
			for _, mode := range files {
				f, err := s.Create(fmt.Sprintf("f%o", mode))
				check(t, err)
				check(t, s.FinishFile(f, mode, testTime))
			}
			dirs := []uint32{0o700, 0o555, 0o777, 0o1777, 0o2750}
			for _, mode := range dirs {
				rel := fmt.Sprintf("d%o", mode)
				check(t, s.Mkdir(rel))
				check(t, s.FinishDir(rel, mode, testTime))
				assertMode(t, filepath.Join(s.Path(), rel), fileMode(mode))
			}
			check(t, s.FinishDir("", 0o751, testTime))
			check(t, s.PublishRoot())
			check(t, s.Commit())
			for _, mode := range files {
				assertMode(t, filepath.Join(dest, fmt.Sprintf("f%o", mode)), fileMode(mode))
			}
			for _, mode := range dirs {
				assertMode(t, filepath.Join(dest, fmt.Sprintf("d%o", mode)), fileMode(mode))
			}
			assertMode(t, dest, 0o751)
			assertTime(t, filepath.Join(dest, "f0"), testTime)
			assertMode(t, filepath.Dir(dest), fs.FileMode(0o777&^umask))
		})
	}
}

// TestSourceNeverBlocks is oven-sh/bun#37937.
func TestSourceNeverBlocks(t *testing.T) {
	root := t.TempDir()
	plant(t, root, map[string]string{"link": "->fifo", "d/x": "1"})
	check(t, syscall.Mkfifo(filepath.Join(root, "fifo"), 0o644))
	check(t, os.Symlink("/dev/null", filepath.Join(root, "device")))
	s := openSource(t, root)
	s.AllowExternal = true
	done := make(chan struct{})
	go func() {
		defer close(done)
		assertOpens(t, s, "fifo", false, "irregular")
		assertOpens(t, s, "fifo", true, "irregular")
		assertOpens(t, s, "link", true, "irregular")
		assertOpens(t, s, "device", true, "irregular")
		assertOpens(t, openSource(t, filepath.Join(root, "fifo")), "", false, "irregular")

		// A FIFO that takes the place of a file or of a directory after it was
		// looked at.
		top := s.dirs.top
		file, err := top.Lstat("d/x")
		check(t, err)
		if _, _, err := openRegular("fifo", func(flag int) (*os.File, error) { return top.OpenFile("fifo", flag, 0) }); !errors.Is(err, ErrNotRegular) {
			t.Errorf("opening a FIFO as a file: %v, want ErrNotRegular (file was %v)", err, file.Mode())
		}
		dir, err := top.Lstat("d")
		check(t, err)
		if _, err := openDir(top, "fifo", "fifo", dir); err == nil {
			t.Error("opening a FIFO as a directory succeeded")
		}
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("Open blocks on a FIFO")
	}
}

// TestOpenDirNoticesALink puts a link where a directory was a moment ago.
func TestOpenDirNoticesALink(t *testing.T) {
	root := t.TempDir()
	plant(t, root, map[string]string{"d/x": "1", "e/x": "2", "link": "->e"})
	top := openSource(t, root).dirs.top
	info, err := top.Lstat("d")
	check(t, err)
	if _, err := openDir(top, "link", "link", info); provider.KindOf(err) != provider.Confined {
		t.Errorf("opening a link in place of a directory: %v, want kind Confined", err)
	}
}

func TestErrorKinds(t *testing.T) {
	dest := filepath.Join(t.TempDir(), "out")
	s := openStage(t, dest, Beside)
	tests := []struct {
		err  error
		kind provider.Kind
		is   error
		text string
		hint string
	}{
		{&os.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}, provider.NoSpace, syscall.ENOSPC, "bytes free", "space"},
		{syscall.EDQUOT, provider.NoSpace, syscall.EDQUOT, "bytes free", "space"},
		{syscall.EROFS, provider.ReadOnly, syscall.EROFS, "read-only", "read-only"},
		{&os.LinkError{Op: "rename", Err: syscall.EACCES}, provider.ReadOnly, fs.ErrPermission, "permission denied", "modes"},
		{syscall.EPERM, provider.ReadOnly, fs.ErrPermission, "not permitted", "modes"},
		{syscall.EXDEV, provider.Other, syscall.EXDEV, "cross-device", "mounted"},
		{syscall.EIO, provider.Other, syscall.EIO, "input/output", ""},
	}
	for _, tt := range tests {
		err := s.WriteError("d/f", tt.err)
		if provider.KindOf(err) != tt.kind || !errors.Is(err, tt.is) {
			t.Errorf("%v: kind %v, want %v", err, provider.KindOf(err), tt.kind)
		}
		for _, want := range []string{tt.text, fmt.Sprintf("%q", filepath.Join(dest, "d/f"))} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q does not say %q", err, want)
			}
		}
		if hint := provider.HintOf(err); !strings.Contains(hint, tt.hint) {
			t.Errorf("%v: hint %q, want %q", err, hint, tt.hint)
		}
	}
	if err := s.WriteError("f", nil); err != nil {
		t.Errorf("WriteError(nil) = %v", err)
	}
}

// TestNoPermission says nothing for root, who may do everything. Directories of
// the user's own will not do: their write permission would be lent.
func TestNoPermission(t *testing.T) {
	if os.Geteuid() == 0 {
		return
	}
	_, err := OpenStage("/sbsync-test", Beside)
	if provider.KindOf(err) != provider.ReadOnly || !errors.Is(err, fs.ErrPermission) && !errors.Is(err, syscall.EROFS) {
		t.Errorf("OpenStage in root's directory: %v, want kind ReadOnly", err)
	}
	if _, err := OpenStage("/usr", Beside); !errors.Is(err, ErrInPlace) {
		t.Errorf("OpenStage beside root's directory: %v, want ErrInPlace", err)
	}
}

// TestSweepLeavesOtherUsersAlone: in a directory for all, such as /tmp, anybody
// can put something that looks like a backup of ours.
func TestSweepLeavesOtherUsersAlone(t *testing.T) {
	parent := t.TempDir()
	stage := filepath.Join(parent, ".sbsync-aaaaaaaaaaaaaaaa")
	plant(t, stage, map[string]string{"owner": "gone", "for": "out", "old/f": "planted"})
	info, err := os.Stat(stage)
	check(t, err)
	if !isOurs(info) {
		t.Error("a directory of this user is not ours")
	}
	info.Sys().(*syscall.Stat_t).Uid++
	if isOurs(info) {
		t.Error("a directory of another user is ours")
	}
	if os.Geteuid() != 0 {
		return // cannot give it to another user
	}
	long := time.Now().Add(-48 * time.Hour)
	for _, name := range []string{"owner", ""} {
		check(t, os.Chtimes(filepath.Join(stage, name), long, long))
	}
	check(t, os.Chown(stage, 12345, -1))
	check(t, Sweep(filepath.Join(parent, "out")))
	assertTree(t, stage, map[string]string{"owner": "gone", "for": "out", "old/f": "planted"})
}
